// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/workload"
)

// A workload is left when the AgentRuntime is deleted or names another. What was put on
// it comes off, and pods that were made with it are replaced, as slowly as any others.
// A workload that is gone, whose kind is gone, or that another AgentRuntime has, needs
// nothing.

// decideDeletion returns the next step of an AgentRuntime that is being deleted. It goes
// in any case: after releaseLimit what cannot be cleaned up is told in an event.
func decideDeletion(seen observed, now time.Time) step {
	if !slices.Contains(seen.runtime.Finalizers, api.Finalizer) {
		return rest{why: "it is being deleted, and somebody else is waited for"}
	}
	deadline := seen.runtime.DeletionTimestamp.Add(releaseLimit)
	late := !now.Before(deadline)
	tried := !seen.troubledSince.IsZero() && !now.Before(seen.troubledSince.Add(releasePatience))
	for _, l := range seen.leaving {
		err := l.trouble(seen.pass)
		if err != nil {
			if late && tried {
				return removeFinalizer{left: fmt.Sprintf("what it put on %s may still be there: %v", l.target, err)}
			}
			return retry{fmt.Errorf("take the configuration off %s: %w", l.target, err)}
		}
		v := part(seen, l, now, late)
		if v == nil {
			continue
		}
		if v.until.IsZero() || v.until.After(deadline) {
			v.until = deadline
		}
		return v.step(seen, now)
	}
	return removeFinalizer{}
}

// inTrouble remembers since when an AgentRuntime that is deleted fails to clean up. It is
// kept in memory: a process that starts anew tries for a while longer.
func (r *Reconciler) inTrouble(a *api.AgentRuntime, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.troubled[a.UID]; !ok && a.DeletionTimestamp != nil {
		r.troubled[a.UID] = now
	}
}

func (r *Reconciler) outOfTrouble(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.troubled, uid)
}

func (r *Reconciler) troubledSince(uid types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.troubled[uid]
}

// leave returns what there is to do before the AgentRuntime can turn to its target, nil
// if that is nothing.
func leave(seen observed, now time.Time) *verdict {
	for _, l := range seen.leaving {
		if err := l.trouble(seen.pass); err != nil {
			v := refusedBy(fmt.Errorf("take the configuration off %s first: %w", l.target, err))
			v.err, v.target = err, seen.runtime.Status.Target // others need not wait for it
			return &v
		}
		if v := part(seen, l, now, false); v != nil {
			return v
		}
	}
	return nil
}

// trouble is why a workload cannot be left. One that another AgentRuntime has is no
// trouble of this one's.
func (l leaving) trouble(p pass) error {
	switch {
	case l.heir:
		return nil
	case l.err != nil:
		return l.err
	default:
		return p.refusal
	}
}

// part returns what there is to do with a workload that is left, nil if that is nothing.
// If it is late, pods are not waited for any more.
func part(seen observed, l leaving, now time.Time, late bool) *verdict {
	a, w := seen.runtime, l.workload
	var none workload.Stamps
	v := &verdict{target: a.Status.Target, started: partStarted(a, w), conflict: no(api.ReasonNoConflict, "nobody else has a say")}
	switch {
	case l.heir, l.unserved, seen.pass.absent[l.target], seen.pass.released[l.target]:
		return nil
	case w == nil, !w.BearsOf(a.UID) && !seen.pass.asked[l.target]:
		v.act = askFor{l.target}
		return v
	case !w.BearsOf(a.UID):
		return partFromDoubt(a, l, v)
	case late:
		v.act = release{workload: w}
		return v
	case !w.Recorded(a.UID, none):
		return partFirst(seen, w, v, now)
	case w.Has != none, w.Record.Generation == 0:
		// Somebody else wants it on the pods, and has it; or only the record is left.
		v.act = release{workload: w}
		return v
	}
	next, pods, why := w.NextMove(none)
	switch {
	case next == workload.Mark:
		v.act = mark{w}
	case next == workload.Replace && v.started == nil:
		return partBegin(seen, w, v, replace{w, pods}, now)
	case next == workload.Replace:
		v.act = replace{w, pods}
	case next == workload.Await && !allTerminating(w.Outdated(none)):
		partAwait(w, v, why, now)
	default:
		v.act = release{workload: w}
	}
	return v
}

// partStarted is when the rollout began that leaving the workload is. One that stalled
// before the stamps came off has no place among those that may be under way.
func partStarted(a *api.AgentRuntime, w *workload.Workload) *metav1.Time {
	if rolloutReason(a) == api.ReasonRolloutStalled && (w == nil || !w.Recorded(a.UID, workload.Stamps{})) {
		return nil
	}
	return a.Status.RolloutStartTime
}

// partFromDoubt sees to it that stamps which may still land do not: they cannot on any
// other version of the workload than the one they were meant for.
func partFromDoubt(a *api.AgentRuntime, l leaving, v *verdict) *verdict {
	w := l.workload
	switch {
	case !l.inDoubt, w.Deleting, w.OwnedByPool:
		return nil
	case w.Bears(): // another's, who is gone
		v.act = release{workload: w}
	default:
		v.act = release{w, &workload.Record{Runtime: a.UID}}
	}
	return v
}

// partFirst takes the stamps off. The pods of a Sandbox stay as they are then, so which
// they are is written down at the same time.
func partFirst(seen observed, w *workload.Workload, v *verdict, now time.Time) *verdict {
	var none workload.Stamps
	keep := w.NewRecord(seen.runtime.UID, none)
	if w.Kind != workload.Sandbox || !w.Runs() {
		keep = nil
	}
	v.act = release{w, keep}
	if w.Has != none && w.Runs() && v.started == nil {
		return partBegin(seen, w, v, v.act, now)
	}
	return v
}

// partBegin asks for a place among the rollouts. What was refused before is tried first.
func partBegin(seen observed, w *workload.Workload, v *verdict, first step, now time.Time) *verdict {
	v.act = nil
	if saidOf(seen.runtime.Status, api.ConditionReady).Reason == api.ReasonConfigApplyError {
		v.first = first
	}
	if seen.pass.noSlot != "" {
		v.say(api.ReasonRolloutPending, fmt.Sprintf("the pods of %s %s%s", w.Target, slotless, seen.pass.noSlot))
		v.until = now.Add(waitLimit)
		return v
	}
	v.say(api.ReasonRollingOut, fmt.Sprintf("the pods of %s that have the configuration are about to be replaced", w.Target))
	v.started, v.ahead, v.needsSlot = ptr.To(metav1.NewTime(now).Rfc3339Copy()), true, true
	return v
}

func partAwait(w *workload.Workload, v *verdict, why string, now time.Time) {
	message := fmt.Sprintf("the pods of %s that have the configuration are being replaced: %s", w.Target, why)
	switch {
	case v.started == nil:
		v.say(api.ReasonRollingOut, message)
	case now.Sub(v.started.Time) >= stallLimit:
		v.say(api.ReasonRolloutStalled, fmt.Sprintf("this takes longer than %s: %s", stallLimit, message))
	default:
		v.say(api.ReasonRollingOut, message)
		v.until = v.started.Add(stallLimit)
	}
}

func allTerminating(pods []workload.Pod) bool {
	return !slices.ContainsFunc(pods, func(p workload.Pod) bool { return !p.Terminating })
}
