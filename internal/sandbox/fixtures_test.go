// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	testStart    = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	testSettings = settings{clusterDomain: "cluster.local", warmPoolEviction: true}
)

// newSandbox is a bare Sandbox that runs, one minute old.
func newSandbox(edits ...func(*agents.Sandbox)) *agents.Sandbox {
	s := &agents.Sandbox{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "box", UID: "box-uid", Generation: 3, ResourceVersion: "10",
			CreationTimestamp: metav1.NewTime(testStart.Add(-time.Minute)),
			Annotations:       map[string]string{agents.AnnotationPodName: "box"},
		},
		Spec: agents.SandboxSpec{SandboxBlueprint: agents.SandboxBlueprint{PodTemplate: agents.PodTemplate{
			Metadata: agents.PodMetadata{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "x"}},
			Spec:     corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36"}}},
		}}},
	}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// newPod is a Sandbox's pod, 30 seconds old, Running and Ready with an address.
func newPod(s *agents.Sandbox, edits ...func(*corev1.Pod)) *corev1.Pod {
	pod := renderPod(s, testSettings)
	pod.UID, pod.ResourceVersion = types.UID(pod.Name+"-pod-uid"), "20"
	pod.CreationTimestamp = metav1.NewTime(testStart.Add(-30 * time.Second))
	pod.Spec = corev1.PodSpec{NodeName: "node-1"}
	pod.Status = corev1.PodStatus{
		Phase:  corev1.PodRunning,
		PodIPs: []corev1.PodIP{{IP: "10.0.0.7"}},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(testStart.Add(-20 * time.Second))},
		},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func seenWith(s *agents.Sandbox, pods ...*corev1.Pod) observed {
	return observed{
		sandbox: s, pods: pods, settings: testSettings,
		volumeClaims: make([]*corev1.PersistentVolumeClaim, len(s.Spec.VolumeClaimTemplates)),
	}
}

// verdictsOf are what the policies say, as decide asks them.
func verdictsOf(seen observed, now time.Time) verdicts {
	v := verdicts{volumes: decideVolumes(seen), pod: decidePod(seen, now)}
	v.service = decideService(seen, v.pod)
	return v
}

// settled is the Sandbox with the status that seen deserves, so that nothing is left
// to do.
func settled(seen observed) observed {
	s := seen.sandbox.DeepCopy()
	s.Status = statusOf(seen, verdictsOf(seen, testStart), testStart)
	seen.sandbox = s
	return seen
}

func suspendedMode(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeSuspended }
func withService(want bool) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) { s.Spec.Service = ptr.To(want) }
}
func inPool(s *agents.Sandbox) {
	s.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "extensions.agents.x-k8s.io/v1beta1", Kind: extensions.SandboxWarmPoolKind, Name: "fast", UID: "pool-uid",
		Controller: ptr.To(true),
	}}
	s.Annotations[agents.AnnotationTemplateRef] = "python"
}
func inClaim(s *agents.Sandbox) {
	s.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "extensions.agents.x-k8s.io/v1alpha1", Kind: extensions.SandboxClaimKind, Name: "mine", UID: "claim-uid",
		Controller: ptr.To(true),
	}}
	s.Annotations[agents.AnnotationTemplateRef] = "python"
}
func recreate(s *agents.Sandbox) {
	s.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateRecreate}
}
func replaceFailedPods(s *agents.Sandbox) { s.Spec.PodFailureAction = agents.PodFailureReplace }
func newImage(s *agents.Sandbox)          { s.Spec.PodTemplate.Spec.Containers[0].Image = "busybox:1.37" }
func newNote(s *agents.Sandbox)           { s.Spec.PodTemplate.Metadata.Annotations["note"] = "y" }
func terminating(p *corev1.Pod)           { at := metav1.NewTime(testStart); p.DeletionTimestamp = &at }
func phase(is corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = is }
}
func named(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Name, p.UID = name, types.UID(name+"-pod-uid") }
}
func nobodys(p *corev1.Pod) { p.OwnerReferences, p.Labels = nil, nil }
func otherOwned(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web-uid", Controller: ptr.To(true)}}
}

func wantStep(t *testing.T, got, want step) {
	t.Helper()
	if reflect.TypeOf(got) != reflect.TypeOf(want) {
		t.Fatalf("next is %T (%s), want %T", got, got, want)
	}
}

// golden compares an object with testdata/<name>.yaml.
func golden(t *testing.T, name string, obj any) {
	t.Helper()
	got, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("rendered as\n%s\nwant\n%s", got, want)
	}
}
