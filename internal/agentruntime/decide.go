// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/workload"
)

// decide returns the one thing to do next.
func decide(seen observed, now time.Time) step {
	a := seen.runtime
	if a.DeletionTimestamp != nil {
		return decideDeletion(seen, now)
	}
	if !slices.Contains(a.Finalizers, api.Finalizer) {
		return addFinalizer{}
	}
	if v := leave(seen, now); v != nil {
		return v.step(seen, now)
	}
	return judge(seen, now).step(seen, now)
}

// verdict is what there is to do, and what the status says meanwhile.
type verdict struct {
	// act is done before the status is written, which then says what came of it.
	act step
	// ahead says that act may only be done once the status is as below.
	ahead bool
	// needsSlot says that act is the start of replacing pods.
	needsSlot bool
	// first is what begin does before it writes the status.
	first step
	// err is why the pass is to be repeated, after the status was written.
	err error
	// until is when to look again at the latest.
	until time.Time

	target  *api.WorkloadReference
	started *metav1.Time
	resolved, config,
	rollout, conflict, ready saying
	// counted says that the workload was looked at, so that its pods can be counted.
	counted bool
}

// saying is a condition without its type. An empty reason says nothing new.
type saying struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) saying { return saying{metav1.ConditionTrue, reason, message} }
func no(reason, message string) saying  { return saying{metav1.ConditionFalse, reason, message} }

// step turns a verdict into a step: what is to be known beforehand, what is to be done,
// what is to be said, in this order.
func (v verdict) step(seen observed, now time.Time) step {
	if v.act != nil && !v.ahead {
		return v.act
	}
	written := statusStep(seen, v, now)
	if unsure := seen.unconfirmed(); written != nil && v.counted && len(unsure) > 0 {
		return confirmPods{unsure}
	}
	switch {
	case written != nil && v.needsSlot:
		return begin{*written, v.first}
	case written != nil:
		return *written
	case v.act != nil:
		return v.act
	case v.err != nil:
		return retry{v.err}
	default:
		return rest{why: v.ready.message, until: v.until}
	}
}

// failed is a verdict about something that keeps the workload from being configured.
func failed(reason, message string) verdict {
	return verdict{
		rollout: no(api.ReasonNotConfigured, message), ready: no(reason, message),
		conflict: no(api.ReasonNoConflict, "nobody else has a say"),
	}
}

// judge looks at the AgentRuntime in the order a person would ask: is there a workload,
// is it this one's, is it known what it should have, does it have it, do its pods.
func judge(seen observed, now time.Time) verdict {
	a, w := seen.runtime, seen.workload
	found := yes(api.ReasonTargetFound, fmt.Sprintf("%s was found", seen.target))
	switch {
	case seen.targetErr != nil:
		v := failed(api.ReasonTargetResolveError, seen.targetErr.Error())
		v.resolved = no(api.ReasonTargetResolveError, seen.targetErr.Error())
		return v
	case seen.holder != nil && seen.holder.UID != a.UID:
		message := fmt.Sprintf("AgentRuntime %q is older and has the same target, %s", seen.holder.Name, seen.target)
		v := failed(api.ReasonTargetTaken, message)
		v.conflict = yes(api.ReasonTargetTaken, message)
		v.until = now.Add(takenLimit)
		return v
	case seen.unserved:
		message := fmt.Sprintf("%s was not found: the server does not serve its kind", seen.target)
		v := failed(api.ReasonTargetNotFound, message)
		v.resolved = no(api.ReasonTargetNotFound, message)
		v.target = a.Status.Target
		return v
	case w == nil && !seen.pass.absent[seen.target]:
		return verdict{act: askFor{seen.target}}
	case w == nil || w.Deleting:
		message := fmt.Sprintf("%s was not found", seen.target)
		if w != nil {
			message = fmt.Sprintf("%s is being deleted", seen.target)
		}
		v := failed(api.ReasonTargetNotFound, message)
		v.resolved = no(api.ReasonTargetNotFound, message)
		v.target = a.Status.Target // one of that name may come back with what was put on it
		return v
	case w.OwnedByPool:
		v := failed(api.ReasonOwnedByWarmPool, fmt.Sprintf("%s waits in a warm pool, whose members are all alike; it is configured once a claim has it", seen.target))
		v.rollout.reason = api.ReasonOwnedByWarmPool
		v.resolved, v.target = found, a.Status.Target
		return v
	case seen.configErr != nil:
		v := failed(api.ReasonConfigHashError, configUnread+seen.configErr.Error())
		v.config = no(api.ReasonConfigHashError, v.ready.message)
		v.resolved, v.target, v.started = found, a.Status.Target, a.Status.RolloutStartTime
		v.err, v.counted = seen.configErr, true
		switch {
		case rolledOut(a):
			// What was true of the pods still is.
			v.rollout, v.conflict = saying{}, saying{}
		case v.started != nil && now.Sub(v.started.Time) >= stallLimit:
			v.rollout.reason = api.ReasonRolloutStalled
		case v.started != nil:
			// It goes on as soon as the configuration can be read: others still wait for it.
			v.rollout.reason = api.ReasonRollingOut
		}
		return v
	}
	v := judgeRollout(seen, now)
	v.resolved, v.counted = found, true
	v.config = configSaying(seen)
	if v.target == nil {
		had := seen.target.Reference()
		v.target = &had
	}
	return v
}

// refusedBy says on the status why the workload could not be written to.
func refusedBy(err error) verdict {
	v := failed(api.ReasonConfigApplyError, err.Error())
	var conflict *workload.ConflictError
	if errors.As(err, &conflict) {
		// That somebody gives the field up is a change of the workload, which is watched.
		v.conflict = yes(api.ReasonFieldConflict, err.Error())
		return v
	}
	v.err = err
	return v
}
