// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

const (
	runtimeUID = types.UID("runtime-uid")
	boxUID     = types.UID("box-uid")
)

var (
	old  = Stamps{Type: "agent", ConfigHash: "old", MTLSMode: "permissive"}
	want = Stamps{Type: "agent", ConfigHash: "new", MTLSMode: "permissive"}

	boxTarget = Target{Namespace: "team", Group: agents.GroupName, Kind: Sandbox, Name: "box"}
	webTarget = Target{Namespace: "team", Group: "apps", Kind: Deployment, Name: "web"}
)

func labelsOf(s Stamps) map[string]string { return map[string]string{api.LabelType: s.Type} }

func annotationsOf(s Stamps) map[string]string {
	return map[string]string{api.AnnotationConfigHash: s.ConfigHash, api.AnnotationMTLSMode: s.MTLSMode}
}

// newBox is a Sandbox at generation 4 whose controller has seen it and computes no
// revisions.
func newBox(edits ...func(*agents.Sandbox)) *agents.Sandbox {
	s := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "box", UID: boxUID, ResourceVersion: "10", Generation: 4}}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func stamped(with Stamps) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		s.Labels = map[string]string{api.LabelType: with.Type, api.LabelManagedBy: api.ManagedBy}
		s.Spec.PodTemplate.Metadata = agents.PodMetadata{Labels: labelsOf(with), Annotations: annotationsOf(with)}
	}
}

func recorded(r Record) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		text, err := r.text()
		if err != nil {
			panic(err)
		}
		s.Annotations = map[string]string{api.AnnotationRollout: text}
	}
}

func seenAt(generation int64) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: agents.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: generation})
	}
}

// withRevision makes it a Sandbox whose controller computes revisions.
func withRevision(update string, generation int64) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) { s.Status.UpdateRevision, s.Status.ObservedGeneration = update, generation }
}

func suspended(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeSuspended }

func scaledToZero(s *agents.Sandbox) { s.Spec.Replicas = ptr.To[int32](0) }

func recreates(s *agents.Sandbox) {
	s.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateRecreate}
}

func ownedBy(kind string) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: extensions.GroupName + "/v1alpha1", Kind: kind, Name: "x", UID: "x-uid", Controller: ptr.To(true)}}
	}
}

// newPod is a pod that is Ready.
func newPod(uid string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pod-" + uid, UID: types.UID(uid), ResourceVersion: "20"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func ofRevision(revision string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, agents.AnnotationTemplateRevision, revision)
	}
}

func carrying(s Stamps) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		metav1.SetMetaDataLabel(&p.ObjectMeta, api.LabelType, s.Type)
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, api.AnnotationConfigHash, s.ConfigHash)
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, api.AnnotationMTLSMode, s.MTLSMode)
	}
}

func terminating(p *corev1.Pod) {
	p.DeletionTimestamp = ptr.To(metav1.NewTime(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)))
}

func failed(p *corev1.Pod) { p.Status.Phase, p.Status.Conditions = corev1.PodFailed, nil }

func succeeded(p *corev1.Pod) { p.Status.Phase, p.Status.Conditions = corev1.PodSucceeded, nil }

func unready(p *corev1.Pod) { p.Status.Conditions = nil }

func newWeb(with Stamps, edits ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web", UID: "web-uid", ResourceVersion: "10", Generation: 2, Labels: map[string]string{api.LabelType: with.Type, api.LabelManagedBy: api.ManagedBy}},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 2},
	}
	d.Spec.Template.Labels, d.Spec.Template.Annotations = labelsOf(with), annotationsOf(with)
	for _, edit := range edits {
		edit(d)
	}
	return d
}

func newSet(uid string, with Stamps) *appsv1.ReplicaSet {
	r := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-" + uid, UID: types.UID(uid)}}
	r.Spec.Template.Labels, r.Spec.Template.Annotations = labelsOf(with), annotationsOf(with)
	return r
}
