// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// twoPods: a Sandbox has two pods, however that came about.
func twoPods(t *testing.T, stage *stage) {
	const name, copied = "code-runner", "code-runner-again"
	s := newStory(t, stage, article, "Two pods of one Sandbox")
	first := s.sandbox(name, nil)
	s.tell("A second pod gets the same Sandbox as its owner. Berth cannot make one: a pod has its Sandbox's name. Another controller, or a person, can.")
	s.seen.allowTwoPods()
	second := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: article, Name: copied, Labels: first.Labels, OwnerReferences: first.OwnerReferences},
		Spec:       idle(),
	}
	s.must(s.client.Create(s.ctx, second))
	s.elsewhere("both are running, the Service leads to both, and every piece of work is done twice.")
	s.until("the Sandbox says that there are two", func() bool {
		return s.now().reason(name, agents.ConditionReady) == agents.ReasonMultiplePods
	})
	s.run("kubectl get sandbox,pod -n agent-sandboxes")
	s.run("kubectl get sandbox " + name + " -n agent-sandboxes \\\n  -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].message}'")
	s.awaitEvent(name, agents.ReasonMultiplePods)
	s.run("kubectl get events -n agent-sandboxes --field-selector reason=MultiplePods")
	status := s.now().sandboxes[name].Status
	s.verdict(len(status.PodIPs) == 0 && status.NodeName == "", "no address is shown, so that nobody sends work to either")
	s.verdict(len(s.now().pods) == 2, "neither is deleted: nobody knows which of them works")

	s.tell("A person decides.")
	s.run("kubectl delete pod " + copied + " -n agent-sandboxes")
	last := s.readyPod(name, nil)
	s.run("kubectl get sandbox,pod -n agent-sandboxes")
	s.verdict(last.UID == first.UID && len(s.now().sandboxes[name].Status.PodIPs) > 0, "with one left, the Sandbox is Ready with it, undisturbed")
	s.quietly()
}

// awaitEvent waits until an event about an object is recorded, which happens in the background.
func (s *story) awaitEvent(about, reason string) {
	s.Helper()
	events, err := s.client.Watch(s.ctx, &corev1.EventList{}, client.InNamespace(s.namespace),
		client.MatchingFields{"involvedObject.name": about, "reason": reason})
	s.must(err)
	defer events.Stop()
	for range events.ResultChan() {
		return
	}
	s.Fatalf("no event %s about %s is recorded: %v", reason, about, s.ctx.Err())
}
