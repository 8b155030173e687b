// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/workload"
)

// A rollout is what brings a workload's pods to the stamps.
//
// Pods are replaced only while the status says so: it is written first, it counts
// against the limits, and a process that starts anew finds it. The stamps themselves
// replace the pods of a Deployment, so they wait for that too. A workload that has no
// pods is stamped at once.
func judgeRollout(seen observed, now time.Time) verdict {
	n, v := needOf(seen), verdict{conflict: no(api.ReasonNoConflict, "nobody else has a say")}
	if n.rolling {
		v.started = seen.runtime.Status.RolloutStartTime
		if seen.runtime.Status.DesiredConfigHash != n.want.ConfigHash {
			v.started = ptr.To(metav1.NewTime(now).Rfc3339Copy()) // it begins anew, with the others still waiting
		}
	}
	if obstacle := judgeObstacles(seen, n, v, now); obstacle != nil {
		return *obstacle
	}
	w := seen.workload
	switch {
	case n.unstamped && w.HalfReleased():
		v.act = release{workload: w}
	case n.disturbs && !n.rolling:
		v = judgeBeginning(seen, n.want, v, now)
		switch {
		case !v.needsSlot || !wasRefused(seen):
		case n.unstamped:
			v.first = stamp{w, n.want, n.wiped}
		default:
			v.first = replace{w, n.pods}
		}
	case n.unstamped:
		v.act, v.ahead = stamp{w, n.want, n.wiped}, !isRecordedTarget(seen)
		v.say(api.ReasonRollingOut, fmt.Sprintf("%s is about to be configured", seen.target))
	case n.move == workload.Mark:
		v.act = mark{w}
	case n.move == workload.Replace:
		v.act = replace{w, n.pods}
	default:
		judgeProgress(seen, n.want, n.why, &v, now)
	}
	return v
}

// need is what a workload needs to have the stamps, and its pods too.
type need struct {
	want workload.Stamps
	// rolling says that the status tells of it already.
	rolling bool
	// unstamped says that the stamps, or the record, are not on it.
	unstamped bool
	// wiped says that somebody took them off.
	wiped bool
	// disturbs says that the next thing to do replaces pods that run.
	disturbs bool
	// paused says that nothing may disturb it, though it should.
	paused bool

	move workload.Move
	pods []workload.Pod
	why  string
}

func needOf(seen observed) need {
	a, w := seen.runtime, seen.workload
	n := need{want: seen.want(), rolling: isRolling(seen)}
	n.unstamped = !w.Stamped(n.want) || !w.Recorded(a.UID, n.want)
	n.wiped = w.Wiped(a.UID, n.want)
	if !n.unstamped {
		n.move, n.pods, n.why = w.NextMove(n.want)
	}
	n.disturbs = n.unstamped && w.Has != n.want && w.Runs() || n.move == workload.Replace
	n.paused = n.disturbs && a.Paused()
	return n
}

// waits reports whether it is not its turn. Then the server need not be asked for the
// configuration: hundreds may wait, and each of them looks again and again.
func (n need) waits(seen observed, now time.Time) bool {
	return n.disturbs && !n.rolling && !seen.workload.HalfReleased() &&
		(seen.pass.noSlot != "" || now.Before(turnAt(seen, n.want)))
}

// judgeObstacles returns what is in the way of a rollout, nil if nothing is.
func judgeObstacles(seen observed, n need, v verdict, now time.Time) *verdict {
	switch {
	case n.paused:
		v.say(api.ReasonRolloutPaused, fmt.Sprintf("pods have to be replaced, and are not while the annotation %s is %q", api.AnnotationPaused, api.PausedTrue))
		v.started = nil
	case n.unstamped && !learntConfig(seen.pass) && !n.waits(seen, now):
		v = verdict{act: readConfig{}}
	case seen.pass.refusal != nil:
		v = refusedBy(seen.pass.refusal) // others need not wait for it
	case n.wiped && now.Before(seen.heldUntil):
		message := fmt.Sprintf("something keeps removing what is put on %s", seen.target)
		v.say(api.ReasonNotConfigured, message)
		v.ready.reason = api.ReasonConfigApplyError
		v.conflict, v.until = yes(api.ReasonStampsRemoved, message), seen.heldUntil
	default:
		return nil
	}
	return &v
}

// judgeBeginning decides whether pods may be replaced now.
func judgeBeginning(seen observed, want workload.Stamps, v verdict, now time.Time) verdict {
	if due := turnAt(seen, want); now.Before(due) {
		v.say(api.ReasonRolloutPending, "pods have to be replaced, in a moment")
		v.until = due
		return v
	}
	if seen.pass.noSlot != "" {
		v.say(api.ReasonRolloutPending, "pods "+slotless+seen.pass.noSlot)
		v.until = now.Add(waitLimit)
		return v
	}
	v.say(api.ReasonRollingOut, fmt.Sprintf("the pods of %s are about to be replaced", seen.target))
	v.started, v.ahead, v.needsSlot = ptr.To(metav1.NewTime(now).Rfc3339Copy()), true, true
	return v
}

// judgeProgress says how far the pods are, once nothing is left for this controller to do.
func judgeProgress(seen observed, want workload.Stamps, why string, v *verdict, now time.Time) {
	w := seen.workload
	old, n := w.Outdated(want), w.Count(want)
	short := want.ConfigHash[:min(len(want.ConfigHash), 12)]
	ready := fmt.Sprintf("%d of %d pods are ready", n.Ready, w.Desired)
	switch {
	case w.Settled(want) && why == "" && len(old) == 0 && n.Ready >= w.Desired:
		message := fmt.Sprintf("%s has configuration %s", seen.target, short)
		if w.Desired == 0 {
			message += "; it has no pods, and the next will have it too"
		}
		v.rollout, v.ready = yes(api.ReasonRolledOut, message), yes(api.ReasonConfigured, message)
		v.started = nil
	case len(old) > 0 && w.Held != "":
		v.say(api.ReasonRolloutPaused, why)
		v.started = nil
	case v.started != nil && now.Sub(v.started.Time) >= stallLimit:
		v.say(api.ReasonRolloutStalled, fmt.Sprintf("this takes longer than %s: %s", stallLimit, joined(why, ready)))
	case v.started != nil:
		v.say(api.ReasonRollingOut, joined(why, ready))
		v.until = v.started.Add(stallLimit)
	case len(old) > 0 || why != "" || !w.Settled(want):
		v.say(api.ReasonRollingOut, joined(why, ready))
	default:
		v.say(api.ReasonPodsNotReady, ready)
	}
}

// say says the same of the rollout and of Ready.
func (v *verdict) say(reason, message string) {
	v.rollout, v.ready = no(reason, message), no(reason, message)
}

func joined(parts ...string) string {
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	return strings.Join(said, "; ")
}

// isRolling reports whether the status says that this workload's pods are being replaced.
// One that stalled is begun anew for another configuration.
func isRolling(seen observed) bool {
	a := seen.runtime
	if a.Status.RolloutStartTime == nil || !isRecordedTarget(seen) {
		return false
	}
	return rolloutReason(a) != api.ReasonRolloutStalled || a.Status.DesiredConfigHash == seen.config.Hash
}

// wasRefused reports whether the status says that the server did not let the target be
// written to.
func wasRefused(seen observed) bool {
	return isRecordedTarget(seen) && saidOf(seen.runtime.Status, api.ConditionReady).Reason == api.ReasonConfigApplyError
}

// isRecordedTarget reports whether the status names the target, so that what is put on
// it can be taken off whatever happens to spec.
func isRecordedTarget(seen observed) bool {
	had := seen.runtime.Status.Target
	return had != nil && *had == seen.target.Reference()
}

// turnAt is dueAt, but for what was refused and has waited already: to wait once more would
// be to say so, and the opposite, in turn.
func turnAt(seen observed, want workload.Stamps) time.Time {
	if wasRefused(seen) {
		return time.Time{}
	}
	return dueAt(seen.runtime, seen.jitter, want.ConfigHash)
}

// dueAt is when a rollout may begin: some time after it was first put off, the same for
// the same AgentRuntime and configuration however often it is asked.
func dueAt(a *api.AgentRuntime, jitter time.Duration, hash string) time.Time {
	if jitter <= 0 {
		return time.Time{}
	}
	c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionRolloutComplete)
	if c == nil || c.Reason != api.ReasonRolloutPending {
		// The status has to say first when that was.
		return time.Unix(1<<40, 0)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(string(a.UID) + hash)) // a hash never fails to write
	share := time.Duration(float64(jitter) * float64(h.Sum64()>>11) / (1 << 53))
	return c.LastTransitionTime.Add(share)
}

func rolloutReason(a *api.AgentRuntime) string {
	if c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionRolloutComplete); c != nil {
		return c.Reason
	}
	return ""
}

func rolledOut(a *api.AgentRuntime) bool {
	return meta.IsStatusConditionTrue(a.Status.Conditions, api.ConditionRolloutComplete)
}

// waits reports whether the status says that a rollout waits for others.
func waits(a *api.AgentRuntime) bool { return rolloutReason(a) == api.ReasonRolloutPending }
