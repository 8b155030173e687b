// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestASandboxThatComesAndStays(t *testing.T) {
	s := newStage(t)
	var box *agents.Sandbox
	var pod *corev1.Pod
	writes := s.writes(func() {
		box, pod = s.running(withService, withVolume)
	})
	for what, want := range map[string]int{"create persistentvolumeclaims": 1, "create pods": 1, "create services": 1, "patch sandboxes": 1} {
		if writes[what] != want {
			t.Errorf("%s: %d times, want %d (of %v)", what, writes[what], want, writes)
		}
	}
	if n := writes["patch sandboxes/status"]; n > 2 || len(writes) > 5 {
		t.Errorf("wrote %v, want at most two times the status and nothing else", writes)
	}
	if !metav1.IsControlledBy(pod, box) || box.Annotations[agents.AnnotationPodName] != "box" {
		t.Errorf("the pod is of %v, the Sandbox says %v", pod.OwnerReferences, box.Annotations)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "box"}}
	if !s.exists(service) || service.Spec.Selector[agents.LabelSandboxUID] != string(box.UID) || service.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("the Service is %+v", service.Spec)
	}
	if st := box.Status; st.ServiceFQDN != "box."+s.namespace+".svc.cluster.local" || st.NodeName != "node-1" || len(st.PodIPs) != 1 ||
		st.CurrentRevision != st.UpdateRevision || st.CurrentRevision != pod.Annotations[agents.AnnotationTemplateRevision] {
		t.Errorf("the status is %+v", st)
	}
	if says(box, agents.ConditionPodOutdated) != "" {
		t.Error("a Sandbox without drift speaks of it")
	}

	// At rest, whatever wakes it.
	requests := s.requests(func() {
		s.patch(box, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}})
		s.patch(pod, "", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"theirs": "1"}}})
		s.patch(service, "", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"theirs": "1"}}})
		s.barrier()
	})
	for _, request := range requests {
		if request.Name == box.Name {
			t.Errorf("request about a Sandbox at rest: %+v", request)
		}
	}

	// A volume that is lost is made again.
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "work-box"}}
	if !s.exists(claim) {
		t.Fatal("there is no volume")
	}
	uid := claim.UID
	s.patch(claim, "", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	s.delete(claim)
	s.await(claim, "is made again", func() bool { return claim.UID != uid && claim.DeletionTimestamp == nil })
}

func withVolume(box *agents.Sandbox) {
	box.Spec.VolumeClaimTemplates = []agents.PersistentVolumeClaimTemplate{{
		Metadata: agents.EmbeddedObjectMetadata{Name: "work"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Mi")}},
		},
	}}
}

func TestAMemberOfAPoolCostsOnePodAndTwoStatuses(t *testing.T) {
	s := newStage(t)
	member := func(box *agents.Sandbox) {
		box.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "extensions.agents.x-k8s.io/v1beta1", Kind: "SandboxWarmPool", Name: "fast", UID: "pool-uid",
			Controller: ptr.To(true),
		}}
		box.Annotations = map[string]string{agents.AnnotationPodName: "box", agents.AnnotationTemplateRef: "python"}
		box.Labels = map[string]string{agents.LabelCreatedBy: "controller"}
	}
	var box *agents.Sandbox
	var pod *corev1.Pod
	writes := s.writes(func() { box, pod = s.running(member) })
	if writes["create pods"] != 1 || writes["patch sandboxes/status"] > 2 || len(writes) != 2 {
		t.Errorf("wrote %v", writes)
	}
	if pod.Labels[agents.LabelWarmPool] != agents.NameHash("fast") || pod.Annotations[agents.AnnotationSafeToEvict] != "true" {
		t.Errorf("the pod's metadata is %v, %v", pod.Labels, pod.Annotations)
	}

	// Adoption by a claim costs one patch of the pod, and no restart.
	writes = s.writes(func() {
		s.patch(box, "", map[string]any{"metadata": map[string]any{
			"ownerReferences": []metav1.OwnerReference{{
				APIVersion: "extensions.agents.x-k8s.io/v1beta1", Kind: "SandboxClaim", Name: "mine", UID: "claim-uid",
				Controller: ptr.To(true),
			}},
			"labels": map[string]any{agents.LabelCreatedBy: "go-client", agents.LabelWarmPool: nil},
		}})
		s.await(pod, "is the claim's", func() bool { return pod.Labels[agents.LabelClaimUID] == "claim-uid" })
	})
	if writes["patch pods"] != 1 || len(writes) != 1 {
		t.Errorf("wrote %v", writes)
	}
	if _, left := pod.Annotations[agents.AnnotationSafeToEvict]; left || pod.Labels[agents.LabelWarmPool] != "" || pod.Labels[agents.LabelCreatedBy] != "go-client" {
		t.Errorf("the pod's metadata is %v, %v", pod.Labels, pod.Annotations)
	}
}

func TestTwoPodsFailClosedUntilOneIsLeft(t *testing.T) {
	s := newStage(t)
	box, pod := s.running()
	second := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "second", OwnerReferences: pod.OwnerReferences},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36"}}},
	}
	writes := s.writes(func() {
		s.create(second)
		s.await(box, "fails closed", func() bool { return says(box, agents.ConditionReady) == "False/MultiplePods" })
		s.patch(box, "", map[string]any{"spec": map[string]any{"operatingMode": "Suspended"}})
		s.await(box, "does not know", func() bool { return says(box, agents.ConditionSuspended) == "Unknown/PodStateUnknown" })
		s.patch(box, "", map[string]any{"spec": map[string]any{"operatingMode": "Running"}})
		s.await(box, "runs", func() bool { return says(box, agents.ConditionSuspended) == "False/NotSuspended" })
	})
	if len(writes) != 1 {
		t.Errorf("wrote %v, want the status only", writes)
	}
	if got, want := message(box, agents.ConditionReady), "multiple Pods (2) are controlled by this Sandbox; refusing to choose or create a Pod"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if box.Status.NodeName != "" || len(box.Status.PodIPs) != 0 {
		t.Errorf("the status still leads somewhere: %+v", box.Status)
	}

	// The one that was made by the controller goes; the other takes its place.
	s.delete(pod)
	s.becomesReady(second)
	s.await(box, "has one pod", func() bool { return says(box, agents.ConditionReady) == "True/DependenciesReady" })
	s.await(box, "names it", func() bool { return box.Annotations[agents.AnnotationPodName] == "second" })
	s.stopped(pod)
	s.barrier()
	if s.exists(pod) {
		t.Error("another pod was made")
	}
}

func TestThePodNameAnnotationDecidesNothing(t *testing.T) {
	s := newStage(t)
	box, pod := s.running()
	stranger := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "stranger"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36"}}},
	}
	s.create(stranger)
	for _, forged := range []any{"stranger", "gone", nil} {
		requests := s.requests(func() {
			s.patch(box, "", map[string]any{"metadata": map[string]any{"annotations": map[string]any{agents.AnnotationPodName: forged}}})
			s.await(box, "names its pod", func() bool { return box.Annotations[agents.AnnotationPodName] == "box" })
			s.barrier()
		})
		for _, request := range requests {
			if request.Writes() && (request.Name == "stranger" || request.Name == "box" && request.Resource != "sandboxes") {
				t.Errorf("forged as %v: %+v", forged, request)
			}
		}
	}
	if now := s.pod("box", ""); now.UID != pod.UID || now.DeletionTimestamp != nil {
		t.Error("the pod was replaced")
	}
	// Nor does it matter while there is no pod.
	s.patch(box, "", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{agents.AnnotationPodName: "stranger"}},
		"spec":     map[string]any{"operatingMode": "Suspended"},
	})
	s.await(pod, "is deleted", func() bool { return pod.DeletionTimestamp != nil })
	s.stopped(pod)
	s.await(box, "is suspended", func() bool { return says(box, agents.ConditionSuspended) == "True/PodTerminated" })
	s.patch(box, "", map[string]any{"spec": map[string]any{"operatingMode": "Running"}})
	s.pod("box", pod.UID)
	if !s.exists(stranger) || stranger.DeletionTimestamp != nil {
		t.Error("the stranger was deleted")
	}
}

func TestAPodThatIsNotTheSandboxsHasItsName(t *testing.T) {
	s := newStage(t)
	nobodys := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "box"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36"}}},
	}
	s.create(nobodys)
	box := s.box()
	s.create(box)
	s.await(box, "says so", func() bool { return says(box, agents.ConditionReady) == "False/ReconcilerError" })
	if !strings.HasPrefix(message(box, agents.ConditionReady), `Error seen: cannot adopt unowned pod "box"`) {
		t.Errorf("it says %q", message(box, agents.ConditionReady))
	}
	// It rests until something happens to the pod.
	for _, request := range s.requests(s.barrier) {
		if request.Name == "box" {
			t.Errorf("request while there is nothing to do: %+v", request)
		}
	}
	s.patch(nobodys, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{agents.LabelAdoptable: "true"}}})
	s.await(nobodys, "is taken over", func() bool { return metav1.IsControlledBy(nobodys, box) })
	s.becomesReady(nobodys)
	s.await(box, "is Ready", func() bool { return says(box, agents.ConditionReady) == "True/DependenciesReady" })
	s.delete(nobodys)
	s.stopped(nobodys)
	s.pod("box", nobodys.UID)
}
