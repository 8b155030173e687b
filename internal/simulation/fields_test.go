// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestSameIsSemanticEquality(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	elsewhere := metav1.NewTime(at.In(time.FixedZone("x", 3600)))
	later := metav1.NewTime(at.Add(1))
	pods := []*corev1.Pod{{}}
	for _, status := range []corev1.PodStatus{
		{Phase: "a"}, {StartTime: &at}, {StartTime: &elsewhere}, {StartTime: &later}, {PodIPs: []corev1.PodIP{}}, {PodIPs: []corev1.PodIP{{IP: "a"}}},
		{Conditions: []corev1.PodCondition{{LastTransitionTime: at}}}, {Conditions: []corev1.PodCondition{{LastTransitionTime: elsewhere}}},
		{Resources: &corev1.ResourceRequirements{}}, {Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
		{Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1000m")}}},
	} {
		pods = append(pods, &corev1.Pod{Status: status})
	}
	for _, meta := range []metav1.ObjectMeta{
		{Labels: map[string]string{}}, {Labels: map[string]string{"a": ""}}, {Labels: map[string]string{"b": ""}}, {DeletionTimestamp: &at}, {Generation: 1},
		{OwnerReferences: []metav1.OwnerReference{{Controller: ptr.To(true)}}}, {OwnerReferences: []metav1.OwnerReference{{Controller: ptr.To(false)}}},
		{OwnerReferences: []metav1.OwnerReference{{}}},
	} {
		pods = append(pods, &corev1.Pod{ObjectMeta: meta})
	}
	for _, a := range pods {
		for _, b := range pods {
			if got, want := sameObject(a, b), equality.Semantic.DeepEqual(a, b); got != want {
				t.Errorf("%v and %v: %t, want %t", a, b, got, want)
			}
			if got, want := sameObject(a, b.DeepCopy()), equality.Semantic.DeepEqual(a, b); got != want {
				t.Errorf("%v and a copy of %v: %t, want %t", a, b, got, want)
			}
		}
	}
}
