// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func replicas(n int) map[string]any { return map[string]any{"spec": map[string]any{"replicas": n}} }

func TestToZeroAndBackWithAPodThatStopsSlowly(t *testing.T) {
	s := newStage(t)
	box, pod := s.running()
	writes := s.writes(func() {
		s.patch(box, "", replicas(0))
		s.await(box, "is suspending", func() bool { return says(box, agents.ConditionSuspended) == "False/PodTerminating" })
		s.stopped(pod)
		s.await(box, "is suspended", func() bool { return says(box, agents.ConditionSuspended) == "True/PodTerminated" })
	})
	if writes["delete pods"] != 1 || writes["patch sandboxes/status"] > 2 || len(writes) != 2 {
		t.Errorf("to suspend wrote %v", writes)
	}
	if says(box, agents.ConditionReady) != "False/SandboxSuspended" || box.Status.Replicas != 0 || len(box.Status.PodIPs) != 0 {
		t.Errorf("the status is %+v", box.Status)
	}
	var second *corev1.Pod
	writes = s.writes(func() {
		s.patch(box, "", replicas(1))
		second = s.pod("box", pod.UID)
		s.becomesReady(second)
		s.await(box, "is Ready", func() bool { return says(box, agents.ConditionReady) == "True/DependenciesReady" })
	})
	if writes["create pods"] != 1 || writes["patch sandboxes/status"] > 2 || len(writes) != 2 {
		t.Errorf("to resume wrote %v", writes)
	}

	// Back before the pod has stopped: the next one waits for it, at rest.
	var third *corev1.Pod
	requests := s.requests(func() {
		s.patch(box, "", replicas(0))
		s.await(second, "is being deleted", func() bool { return second.DeletionTimestamp != nil })
		s.patch(box, "", replicas(1))
		s.await(box, "waits", func() bool { return message(box, agents.ConditionReady) == "Pod is terminating" })
		s.patch(second, "status", map[string]any{"status": map[string]any{"phase": "Failed"}})
		s.barrier()
		s.exists(second)
		if second.DeletionTimestamp == nil {
			t.Error("a pod was made before the old one was gone")
		}
		s.stopped(second)
		third = s.pod("box", second.UID)
	})
	creates, conflicts := 0, 0
	for _, request := range requests {
		switch {
		case request.Name != "box" || request.Code < 400:
		case request.Code == http.StatusConflict && conflicts < 2:
			conflicts++ // with the two edits of the test
		default:
			t.Errorf("a request failed: %+v", request)
		}
		if request.Verb == "create" && request.Resource == "pods" && request.Name == "box" {
			creates++
		}
	}
	if creates > 1 || third.UID == second.UID {
		t.Errorf("pods were made %d times", creates)
	}
}

func TestDriftIsVisibleAndNotDisruptive(t *testing.T) {
	s := newStage(t)
	box, pod := s.running()
	s.patch(box, "", map[string]any{"spec": map[string]any{"podTemplate": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": "y"}}}}})
	s.await(box, "tells of the annotation", func() bool { return says(box, agents.ConditionPodOutdated) == "True/MetadataAppliedInPlace" })
	if !strings.HasPrefix(message(box, agents.ConditionPodOutdated), "metadata.annotations[note] ") {
		t.Errorf("it says %q", message(box, agents.ConditionPodOutdated))
	}
	if s.exists(pod); pod.Annotations["note"] != "y" || pod.DeletionTimestamp != nil {
		t.Error("the annotation was not applied in place")
	}
	s.patch(box, "", map[string]any{"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{
		"containers": []map[string]any{{"name": "main", "image": "busybox:1.37"}}, "terminationGracePeriodSeconds": 5,
	}}}})
	s.await(box, "tells of the spec", func() bool { return says(box, agents.ConditionPodOutdated) == "True/SpecChanged" })
	if got := message(box, agents.ConditionPodOutdated); !strings.Contains(got, " spec.containers[main].image, spec.terminationGracePeriodSeconds;") {
		t.Errorf("it says %q", got)
	}
	if box.Status.CurrentRevision == box.Status.UpdateRevision || says(box, agents.ConditionReady) != "True/DependenciesReady" {
		t.Errorf("the status is %+v", box.Status)
	}
	// The next pod is of the new template.
	s.delete(pod)
	s.stopped(pod)
	next := s.pod("box", pod.UID)
	if next.Spec.Containers[0].Image != "busybox:1.37" {
		t.Errorf("the next pod is of %s", next.Spec.Containers[0].Image)
	}
	s.await(box, "is up to date", func() bool { return says(box, agents.ConditionPodOutdated) == "False/UpToDate" })
}

func TestRecreateRollsThePodForAnAnnotation(t *testing.T) {
	s := newStage(t)
	box, pod := s.running(recreate)
	s.patch(box, "", map[string]any{"spec": map[string]any{"podTemplate": map[string]any{"metadata": map[string]any{"annotations": map[string]any{"note": "y"}}}}})
	s.await(pod, "is being deleted", func() bool { return pod.DeletionTimestamp != nil })
	s.stopped(pod)
	next := s.pod("box", pod.UID)
	if next.Annotations["note"] != "y" {
		t.Errorf("the next pod has %v", next.Annotations)
	}
	s.becomesReady(next)
	s.await(box, "is Ready", func() bool {
		return says(box, agents.ConditionReady) == "True/DependenciesReady" && box.Status.CurrentRevision == box.Status.UpdateRevision
	})
}

func TestAnotherBuildRestartsNothing(t *testing.T) {
	s := newStage(t)
	box, pod := s.running(recreate)
	s.manager.Stop(t)
	for _, recorded := range []any{"v0-0123456789abcdef0123456789abcdef", nil} {
		s.patch(pod, "", map[string]any{"metadata": map[string]any{"annotations": map[string]any{agents.AnnotationTemplateRevision: recorded}}})
		s.manager.Restart(t)
		for _, request := range s.requests(s.barrier) {
			if request.Writes() && request.Name == "box" {
				t.Errorf("a pod of revision %v: %+v", recorded, request)
			}
		}
		if s.exists(box); says(box, agents.ConditionPodOutdated) != "" || says(box, agents.ConditionReady) != "True/DependenciesReady" {
			t.Errorf("the status is %+v", box.Status)
		}
	}
	if now := s.pod("box", ""); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
}

func TestAQuotaThatRefusesPodsIsToldAndOvercome(t *testing.T) {
	s := newStage(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: quantity("0")}},
	}
	s.create(quota)
	// What the quota's controller does, which does not run here.
	s.patch(quota, "status", map[string]any{"status": map[string]any{"hard": map[string]any{"pods": "0"}, "used": map[string]any{"pods": "0"}}})
	box := s.box()
	refusedTwice := 0
	requests := s.requests(func() {
		s.create(box)
		s.await(box, "says so", func() bool { return says(box, agents.ConditionReady) == "False/ReconcilerError" })
	})
	for _, request := range requests {
		if request.Resource == "sandboxes" && request.Subresource == "status" {
			refusedTwice++
		}
	}
	if refusedTwice > 1 {
		t.Errorf("the same refusal was written %d times", refusedTwice)
	}
	if got := message(box, agents.ConditionReady); !strings.HasPrefix(got, "Error seen: ") || !strings.Contains(got, "exceeded quota: none") {
		t.Errorf("it says %q", got)
	}
	written := box.ResourceVersion
	s.patch(quota, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}})
	if s.exists(box); box.ResourceVersion != written {
		t.Error("the refusal is written again and again")
	}
	if err := s.client.Delete(s.ctx, quota); err != nil {
		t.Fatal(err)
	}
	s.becomesReady(s.pod("box", ""))
	s.await(box, "is Ready", func() bool { return says(box, agents.ConditionReady) == "True/DependenciesReady" })
}

func TestATemplateThatMakesNoPodIsToldOnce(t *testing.T) {
	s := newStage(t)
	box := s.box(func(b *agents.Sandbox) { b.Spec.PodTemplate.Metadata.Labels["bad"] = "not a label!" })
	requests := s.requests(func() {
		s.create(box)
		s.await(box, "says so", func() bool { return says(box, agents.ConditionReady) == "False/ReconcilerError" })
		s.barrier()
	})
	tries := 0
	for _, request := range requests {
		if request.Verb == "create" && request.Code == 422 {
			tries++
		}
	}
	if tries != 1 || !strings.Contains(message(box, agents.ConditionReady), "not a label!") {
		t.Errorf("tried %d times; it says %q", tries, message(box, agents.ConditionReady))
	}
	s.patch(box, "", map[string]any{"spec": map[string]any{"podTemplate": map[string]any{"metadata": map[string]any{"labels": map[string]any{"bad": nil}}}}})
	s.pod("box", "")
}

func TestExpiry(t *testing.T) {
	for policy, check := range map[agents.ShutdownPolicy]func(*testing.T, *stage, *agents.Sandbox){
		agents.ShutdownPolicyDelete: func(_ *testing.T, s *stage, box *agents.Sandbox) { s.awaitGone(box) },
		agents.ShutdownPolicyRetain: func(t *testing.T, s *stage, box *agents.Sandbox) {
			s.await(box, "keeps its conditions only", func() bool {
				return says(box, agents.ConditionReady) == "False/SandboxExpired" && box.Status.LabelSelector == "" && box.Status.Service == ""
			})
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "work-box"}}
			if !s.exists(claim) || claim.DeletionTimestamp != nil {
				t.Error("the volume is gone")
			}
			s.patch(box, "", map[string]any{"spec": map[string]any{"shutdownTime": nil}})
			s.pod("box", "")
		},
	} {
		t.Run(string(policy), func(t *testing.T) {
			s := newStage(t)
			box, pod := s.running(withService, withVolume)
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "box"}}
			s.exists(service)
			soon := metav1.NewTime(time.Now().Add(time.Second)).UTC().Format(time.RFC3339)
			s.patch(box, "", map[string]any{"spec": map[string]any{"shutdownTime": soon, "shutdownPolicy": policy}})
			s.await(pod, "is being deleted", func() bool { return pod.DeletionTimestamp != nil })
			s.awaitGone(service)
			s.await(box, "says so", func() bool { return says(box, agents.ConditionReady) == "False/SandboxExpired" })
			if box.Status.LabelSelector == "" || box.DeletionTimestamp != nil {
				t.Error("it is taken for gone before it is")
			}
			s.stopped(pod)
			check(t, s, box)
		})
	}
}
