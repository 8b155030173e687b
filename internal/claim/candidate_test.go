// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestUnfit(t *testing.T) {
	member := func(edits ...func(*agents.Sandbox)) *agents.Sandbox {
		return newSandbox("member", append([]func(*agents.Sandbox){ownedBy("SandboxWarmPool", "pool-uid")}, edits...)...)
	}
	pod := func(edits ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}}
		for _, edit := range edits {
			edit(p)
		}
		return p
	}
	dying := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
	for name, c := range map[string]struct {
		s    *agents.Sandbox
		pods []*corev1.Pod
		want string
	}{
		"a ready member is fit":                             {member(), []*corev1.Pod{pod()}, ""},
		"one with a dying pod beside it is fit":             {member(), []*corev1.Pod{pod(dying), pod()}, ""},
		"one that is gone is not":                           {nil, nil, "is gone"},
		"one of a pool of the same name, made anew, is not": {member(ownedBy("SandboxWarmPool", "older-pool")), []*corev1.Pod{pod()}, "belongs to something else by now"},
		"one that a claim adopted is not":                   {member(ownedBy("SandboxClaim", "other")), []*corev1.Pod{pod()}, "belongs to something else by now"},
		"one that is being deleted is not":                  {member(terminating), []*corev1.Pod{pod()}, "is being deleted"},
		"one that was suspended is not":                     {member(func(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeSuspended }), []*corev1.Pod{pod()}, "was suspended or given an end"},
		"one whose pod is dying is not":                     {member(), []*corev1.Pod{pod(dying)}, "has no pod"},
		"one with two pods is not":                          {member(), []*corev1.Pod{pod(), pod()}, "has more than one pod"},
		"one whose pod is not ready is not":                 {member(), []*corev1.Pod{pod(func(p *corev1.Pod) { p.Status.Conditions = nil })}, "has a pod that is not ready"},
		"one whose pod has failed is not":                   {member(), []*corev1.Pod{pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, "has a pod that is not ready"},
		"one whose pod has no IP is not":                    {member(), []*corev1.Pod{pod(func(p *corev1.Pod) { p.Status.PodIPs = nil })}, "has no pod IP"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unfit(fromPool(), c.s, c.pods); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUnderRecreateOnlyThePresentBlueprintIsFit(t *testing.T) {
	from := fromPool()
	from.Pool.Spec.UpdateStrategy = &extensions.SandboxWarmPoolUpdateStrategy{Type: extensions.WarmPoolRecreate}
	s := newSandbox("member", ownedBy("SandboxWarmPool", "pool-uid"))
	if got := unfit(from, s, nil); !strings.HasPrefix(got, "cannot be compared") {
		t.Errorf("without a template: %q", got)
	}
}

func TestAdoptionTouchesMetadataOnly(t *testing.T) {
	member := newSandbox("member", ownedBy("SandboxWarmPool", "pool-uid"), func(s *agents.Sandbox) {
		s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{Kind: "Audit", UID: "bystander"})
	})
	patch := adoption(newClaim(), member)
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok || len(patch) != 1 {
		t.Fatalf("got %v, want metadata and nothing else", patch)
	}
	owners := metadata["ownerReferences"].([]metav1.OwnerReference)
	if len(owners) != 2 || owners[0].UID != "bystander" || owners[1].UID != "claim-uid" || !*owners[1].Controller || !*owners[1].BlockOwnerDeletion {
		t.Errorf("owners: %+v", owners)
	}
	labels := metadata["labels"].(map[string]any)
	for label, want := range map[string]any{
		agents.LabelWarmPool: nil, agents.LabelTemplateHash: nil, agents.LabelPodTemplateHash: nil, agents.LabelCreatedBy: nil,
		agents.LabelClaimUID: "claim-uid", agents.LabelLaunchType: "warm",
	} {
		if got, ok := labels[label]; !ok || got != want {
			t.Errorf("label %s: %v, want %v", label, got, want)
		}
	}
}
