// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

const (
	// firstPause is before the first replacement of a failed pod; it doubles from one
	// to the next up to longestPause.
	firstPause   = 10 * time.Second
	longestPause = 5 * time.Minute
	// goodAfter is how long a pod must have been Ready for earlier failures to be
	// forgotten.
	goodAfter = 10 * time.Minute
)

// failureVerdict is what follows from podFailureAction.
type failureVerdict struct {
	// replace is why the pod is replaced, or empty.
	replace string
	// remember is what the status is to say about failures.
	remember *agents.PodFailures
	until    time.Time
	why      string
}

// decideFailure: under Replace a failed pod is counted, and then replaced after a pause
// that doubles with every failure in a row. The count is in the status before the pod
// goes, so that no restart of the controller forgets it. A pod that succeeded is done.
func decideFailure(s *agents.Sandbox, pod *corev1.Pod, now time.Time) failureVerdict {
	if !s.ReplacesFailedPods() {
		return failureVerdict{}
	}
	known := s.Status.PodFailures
	if pod.Status.Phase == corev1.PodFailed {
		return replaceFailed(known, pod, now)
	}
	if known == nil {
		return failureVerdict{}
	}
	ready := podCondition(pod, corev1.PodReady)
	if pod.Status.Phase != corev1.PodRunning || ready == nil || ready.Status != corev1.ConditionTrue {
		return failureVerdict{remember: known}
	}
	good := ready.LastTransitionTime.Add(goodAfter)
	if !now.Before(good) {
		return failureVerdict{}
	}
	return failureVerdict{remember: known, until: good, why: "earlier failures are forgotten once the pod has been Ready for long enough"}
}

func replaceFailed(known *agents.PodFailures, pod *corev1.Pod, now time.Time) failureVerdict {
	const why = "the pod failed, and podFailureAction is Replace"
	if known == nil || known.LastPodUID != pod.UID {
		failures := &agents.PodFailures{Count: 1, LastPodUID: pod.UID}
		if known != nil {
			failures.Count += known.Count
		}
		at := metav1.NewTime(now).Rfc3339Copy()
		failures.LastFailureTime = &at
		known = failures
		return failureVerdict{remember: known, until: at.Add(pause(known.Count)), why: why}
	}
	var last time.Time
	if known.LastFailureTime != nil {
		last = known.LastFailureTime.Time
	}
	due := last.Add(pause(known.Count))
	if now.Before(due) {
		return failureVerdict{remember: known, until: due, why: why}
	}
	return failureVerdict{remember: known, replace: why}
}

// pause is how long to wait after the given number of failures in a row.
func pause(failures int32) time.Duration {
	p := firstPause
	for n := int32(1); n < failures && p < longestPause; n++ {
		p *= 2
	}
	return min(p, longestPause)
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
