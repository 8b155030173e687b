// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"time"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

// decide returns the one thing to do next.
func decide(seen observed, now time.Time) step {
	switch {
	case seen.sandbox.DeletionTimestamp != nil:
		return rest{why: "the Sandbox is being deleted, and the garbage collector removes what it owns"}
	case expired(seen.sandbox, now):
		return expire(seen, now)
	}
	// A problem with one of these does not keep the others from being brought about.
	v := verdicts{volumes: decideVolumes(seen), pod: decidePod(seen, now)}
	v.service = decideService(seen, v.pod)
	for _, next := range []step{v.volumes.next, v.pod.next, v.service.next} {
		if next != nil {
			return next
		}
	}
	return report(seen, v, now)
}

// verdicts are what the policies found about a Sandbox that has not expired.
type verdicts struct {
	volumes volumesVerdict
	pod     podVerdict
	service serviceVerdict
}

// problems are the problems of all, in the order the parts are brought about.
func (v verdicts) problems() []string {
	var all []string
	for _, problem := range []string{v.volumes.problem, v.pod.problem, v.service.problem} {
		if problem != "" {
			all = append(all, problem)
		}
	}
	return all
}

// report is the end of a pass in which nothing is left to do but to say what is: the
// status, and then rest.
func report(seen observed, v verdicts, now time.Time) step {
	s := seen.sandbox
	// That the pod is gone is told to clients, who act on it: not from a cache.
	if v.pod.isGone() && !seen.pass.podGone && !isTrue(s, agents.ConditionSuspended) && !s.Running() {
		return confirmPodGone{}
	}
	if v.pod.current != nil && newlyOutdated(s, v.pod.drift) && v.pod.drift.specChanged() && !seen.pass.asked {
		return readPod{pod: v.pod.current}
	}
	next := statusOf(seen, v, now)
	until := settles(s.Status, next, v.pod.current, now)
	if until.IsZero() {
		if write := statusStep(s, next); write != nil {
			return *write
		}
	}
	if again := retryRefused(seen.pass); again != nil {
		return *again
	}
	why := v.pod.why
	if why == "" {
		why = readyMessage(next)
	}
	return rest{why: why, until: earliest(until, v.pod.until, shutdownTime(s), askAgain(seen.pass, now))}
}

// statusStep writes the status, or is nil if it is written.
func statusStep(s *agents.Sandbox, next agents.SandboxStatus) *writeStatus {
	patch, differs, err := consistent.Diff(s.Status, next)
	if err != nil {
		panic("a Sandbox's status has no JSON form: " + err.Error())
	}
	if !differs {
		return nil
	}
	write := &writeStatus{patch: consistent.Patch{"status": map[string]any(patch)}}
	if ready := condition(next, agents.ConditionReady); ready.Reason == agents.ReasonMultiplePods &&
		condition(s.Status, agents.ConditionReady).Reason != agents.ReasonMultiplePods {
		write.events = append(write.events, event{reason: agents.ReasonMultiplePods, note: ready.Message})
	}
	return write
}

// retryRefused is for what the server refused and may accept later, such as a pod over
// quota: nothing announces that. It is nil if there is no such thing.
func retryRefused(learnt pass) *retry {
	var errs []error
	for _, r := range learnt.refusals {
		if !r.invalid {
			errs = append(errs, r.err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &retry{err: errors.Join(errs...)}
}

// askAgain is when what was refused as invalid is asked for once more, or zero if nothing
// was.
func askAgain(learnt pass, now time.Time) time.Time {
	for _, r := range learnt.refusals {
		if r.invalid {
			return now.Add(control.RefusedAgain)
		}
	}
	return time.Time{}
}

// earliest is the first of the times that are set, or zero.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
