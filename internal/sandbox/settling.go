// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// settlingTime is how old a pod is before its progress towards Ready is worth a status.
const settlingTime = 2 * time.Second

// settles returns until when a change of status is held back, or zero if it is not.
//
// A new pod runs through scheduling, starting and becoming Ready within moments, and to
// write each of them down costs more than making the pod. So what is mere progress of a
// pod that is not Ready waits for the first two seconds. Whatever ends a wait, Ready
// first of all, or is news of another kind is written at once.
func settles(old, next agents.SandboxStatus, pod *corev1.Pod, now time.Time) time.Time {
	if pod == nil {
		return time.Time{}
	}
	age := now.Sub(pod.CreationTimestamp.Time)
	if age < 0 || age >= settlingTime || !isProgress(old, next) {
		return time.Time{}
	}
	return pod.CreationTimestamp.Add(settlingTime)
}

// isProgress reports whether all that the next status tells is how far a pod has come
// that was not Ready and is not.
func isProgress(old, next agents.SandboxStatus) bool {
	before, after := condition(old, agents.ConditionReady), condition(next, agents.ConditionReady)
	return (before.Type == "" || isNotReadyYet(before)) && isNotReadyYet(after) &&
		suspended(old) == suspended(next) &&
		sameState(old, next, agents.ConditionFinished) &&
		sameState(old, next, agents.ConditionPodOutdated)
}

func isNotReadyYet(ready metav1.Condition) bool {
	return ready.Status == metav1.ConditionFalse && ready.Reason == agents.ReasonDependenciesNotReady
}

// suspended is the status of the Suspended condition. That a Sandbox which never said
// so is not suspended is no news.
func suspended(s agents.SandboxStatus) metav1.ConditionStatus {
	if c := condition(s, agents.ConditionSuspended); c.Type != "" {
		return c.Status
	}
	return metav1.ConditionFalse
}

func sameState(old, next agents.SandboxStatus, kind string) bool {
	a, b := condition(old, kind), condition(next, kind)
	return a.Status == b.Status && a.Reason == b.Reason
}
