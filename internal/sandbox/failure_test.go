// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestFailedPods(t *testing.T) {
	ago := func(d time.Duration) *metav1.Time { at := metav1.NewTime(testStart.Add(-d)); return &at }
	in := testStart.Add
	failed := phase(corev1.PodFailed)
	readyFor := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Conditions[1].LastTransitionTime = *ago(d) }
	}
	notReady := func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }
	const counted = "box-pod-uid"
	cases := map[string]struct {
		action  agents.PodFailureAction
		known   *agents.PodFailures
		pod     func(*corev1.Pod)
		replace bool
		count   int32 // 0 is nothing to remember
		until   time.Time
	}{
		"a failed pod is kept by default":     {pod: failed},
		"a failed pod is kept under Keep":     {action: agents.PodFailureKeep, pod: failed},
		"what was remembered goes under Keep": {action: agents.PodFailureKeep, pod: failed, known: &agents.PodFailures{Count: 2}},
		"the first failure waits ten seconds": {action: agents.PodFailureReplace, pod: failed, count: 1, until: in(10 * time.Second)},
		"the fourth waits eighty": {
			action: agents.PodFailureReplace, pod: failed, known: &agents.PodFailures{Count: 3, LastPodUID: "earlier"}, count: 4,
			until: in(80 * time.Second),
		},
		"the wait ends at five minutes": {
			action: agents.PodFailureReplace, pod: failed, known: &agents.PodFailures{Count: 900, LastPodUID: "earlier"}, count: 901,
			until: in(5 * time.Minute),
		},
		"a failure is counted once": {
			action: agents.PodFailureReplace, pod: failed,
			known: &agents.PodFailures{Count: 1, LastPodUID: counted, LastFailureTime: ago(9 * time.Second)}, count: 1, until: in(time.Second),
		},
		"after the wait the pod is replaced": {
			action: agents.PodFailureReplace, pod: failed,
			known: &agents.PodFailures{Count: 1, LastPodUID: counted, LastFailureTime: ago(10 * time.Second)}, count: 1, replace: true,
		},
		"a count without a time does not wait": {
			action: agents.PodFailureReplace, pod: failed, known: &agents.PodFailures{Count: 1, LastPodUID: counted}, count: 1, replace: true,
		},
		"a pod that succeeded is never replaced": {
			action: agents.PodFailureReplace, pod: phase(corev1.PodSucceeded), known: &agents.PodFailures{Count: 1, LastPodUID: counted}, count: 1,
		},
		"a good pod is no news": {action: agents.PodFailureReplace, pod: readyFor(time.Hour)},
		"failures are remembered for ten good minutes": {
			action: agents.PodFailureReplace, pod: readyFor(9 * time.Minute), known: &agents.PodFailures{Count: 2}, count: 2, until: in(time.Minute),
		},
		"and then forgotten":                  {action: agents.PodFailureReplace, pod: readyFor(10 * time.Minute), known: &agents.PodFailures{Count: 2}},
		"a pod that is not ready is not good": {action: agents.PodFailureReplace, pod: notReady, known: &agents.PodFailures{Count: 2}, count: 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(func(s *agents.Sandbox) { s.Spec.PodFailureAction, s.Status.PodFailures = c.action, c.known })
			v := decidePod(seenWith(s, newPod(s, c.pod)), testStart)
			_, replaces := v.next.(deletePods)
			var count int32
			if v.failures != nil {
				count = v.failures.Count
			}
			if replaces != c.replace || count != c.count || !v.until.Equal(c.until) && !c.replace {
				t.Errorf("replaces %t, count %d, until %s; want %t, %d, %s", replaces, count, v.until, c.replace, c.count, c.until)
			}
		})
	}
}

func TestAFailureIsWrittenDownBeforeThePodGoes(t *testing.T) {
	s := newSandbox(replaceFailedPods)
	seen := seenWith(s, newPod(s, phase(corev1.PodFailed)))
	wantStep(t, decide(seen, testStart), writeStatus{})
	seen = settled(seen)
	wantStep(t, decide(seen, testStart.Add(9*time.Second)), rest{})
	wantStep(t, decide(seen, testStart.Add(10*time.Second)), deletePods{})
	// The count outlives the pod.
	seen.pods = nil
	if v := decidePod(seen, testStart); v.failures == nil || v.failures.Count != 1 {
		t.Errorf("remembers %v", v.failures)
	}
}
