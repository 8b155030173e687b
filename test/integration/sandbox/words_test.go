// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestAStatusIsWrittenWhateverAPodSaysOfItself(t *testing.T) {
	s := newStage(t)
	box := s.box(func(b *agents.Sandbox) { b.Spec.PodTemplate.Spec.NodeName = "" })
	s.create(box)
	pod := s.pod("box", "")
	s.patch(pod, "status", map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "not enough-nodes!", Message: strings.Repeat("no node ", 5000)},
	}}})
	s.await(box, "tells that the pod is not scheduled", func() bool {
		return says(box, agents.ConditionPodScheduled) == "False/PodSchedulingUnknown"
	})
	if got := message(box, agents.ConditionPodScheduled); !strings.HasPrefix(got, "not enough-nodes!: no node ") {
		t.Errorf("the message is %q", got)
	}
	s.patch(pod, "status", map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: "maybe", Reason: "Asking", Message: "who knows"},
	}}})
	s.await(box, "tells what it can", func() bool { return says(box, agents.ConditionPodScheduled) == "Unknown/Asking" })
}

func TestARefusalOfAnyLengthIsTold(t *testing.T) {
	s := newStage(t)
	box := s.box(func(b *agents.Sandbox) {
		mounts := make([]corev1.VolumeMount, 1000)
		for i := range mounts {
			mounts[i] = corev1.VolumeMount{Name: "nowhere", MountPath: "/data/" + strings.Repeat("x", i+1)}
		}
		b.Spec.PodTemplate.Spec.Containers[0].VolumeMounts = mounts
	})
	s.create(box)
	s.await(box, "tells of the refusal", func() bool { return says(box, agents.ConditionReady) == "False/ReconcilerError" })
	if got := message(box, agents.ConditionReady); !strings.Contains(got, `volumeMounts[0].name: Not found: "nowhere"`) || !strings.HasSuffix(got, "...") {
		t.Errorf("the message is %q", got)
	}
}
