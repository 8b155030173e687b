// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// shutdownTime is when the Sandbox expires, or zero if it never does.
func shutdownTime(s *agents.Sandbox) time.Time {
	if s.Spec.ShutdownTime == nil {
		return time.Time{}
	}
	return s.Spec.ShutdownTime.Time
}

func expired(s *agents.Sandbox, now time.Time) bool {
	at := shutdownTime(s)
	return !at.IsZero() && !now.Before(at)
}

// expire: pods and Service go, however many pods there are. When they are proved gone
// the Sandbox goes too, or its status is cut down to its conditions. Volumes stay as
// long as the Sandbox does, which lives on when its shutdownTime is moved.
func expire(seen observed, now time.Time) step {
	s := seen.sandbox
	v := lookAtPods(seen)
	if len(v.live) > 0 && seen.pass.refused(aboutPod) == nil {
		return deletePods{pods: v.live, why: "the Sandbox has expired"}
	}
	service := seen.service != nil && relate(s, seen.service) == owned
	if service && seen.service.DeletionTimestamp == nil && seen.pass.refused(aboutService) == nil {
		return deleteService{service: seen.service}
	}
	if left := len(v.live) > 0 || v.dying != nil || service; left {
		return conclude(seen, now, expiringStatus(s, now), "pod and Service of the expired Sandbox are still there")
	}
	next := expiredStatus(s, now)
	if s.Spec.ShutdownPolicy == agents.ShutdownPolicyDelete {
		if !seen.pass.podGone {
			return confirmPodGone{}
		}
		return deleteSandbox{}
	}
	if statusStep(s, next) != nil && !seen.pass.podGone {
		return confirmPodGone{}
	}
	return conclude(seen, now, next, "the Sandbox has expired")
}

// conclude writes a status that says everything there is to say, and rests.
func conclude(seen observed, now time.Time, next agents.SandboxStatus, why string) step {
	if write := statusStep(seen.sandbox, next); write != nil {
		return *write
	}
	if again := retryRefused(seen.pass); again != nil {
		return *again
	}
	return rest{why: why, until: askAgain(seen.pass, now)}
}

// expiringStatus is the status while pods or the Service are left. Nobody is sent to
// them any more.
func expiringStatus(s *agents.Sandbox, now time.Time) agents.SandboxStatus {
	next := *s.Status.DeepCopy()
	next.ObservedGeneration = s.Generation
	next.PodIPs, next.NodeName, next.Replicas = nil, "", 0
	next.Conditions = expiredConditions(s, now)
	return next
}

// expiredStatus is the status once they are gone.
func expiredStatus(s *agents.Sandbox, now time.Time) agents.SandboxStatus {
	return agents.SandboxStatus{ObservedGeneration: s.Generation, Conditions: expiredConditions(s, now)}
}

// expiredConditions says that the Sandbox has expired. What was said of how it finished
// and whether it was suspended stays.
func expiredConditions(s *agents.Sandbox, now time.Time) []metav1.Condition {
	c := conditions{list: s.Status.DeepCopy().Conditions, generation: s.Generation, now: now}
	if c.find(agents.ConditionSuspended) == nil {
		if s.Running() {
			c.set(newCondition(agents.ConditionSuspended, metav1.ConditionFalse, agents.ReasonNotSuspended, agents.MessageNotSuspended))
		} else {
			c.set(newCondition(agents.ConditionSuspended, metav1.ConditionTrue, agents.ReasonPodTerminated, agents.MessagePodTerminated))
		}
	}
	if c.find(agents.ConditionPodOutdated) != nil {
		c.set(newCondition(agents.ConditionPodOutdated, metav1.ConditionFalse, agents.ReasonUpToDate, agents.MessageNextPodUpToDate))
	}
	for _, kept := range []string{agents.ConditionSuspended, agents.ConditionFinished} {
		c.set(c.find(kept))
	}
	meta.RemoveStatusCondition(&c.list, string(corev1.PodScheduled))
	c.set(newCondition(agents.ConditionReady, metav1.ConditionFalse, agents.ReasonSandboxExpired, agents.MessageSandboxExpired))
	return c.list
}
