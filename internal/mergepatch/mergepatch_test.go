// SPDX-License-Identifier: Apache-2.0

package mergepatch

import (
	"encoding/json"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func pod() *corev1.Pod {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", UID: "u", ResourceVersion: "1", Labels: map[string]string{"x": "1", "y": "2"}, CreationTimestamp: at,
			OwnerReferences: []metav1.OwnerReference{{Name: "o", UID: "v", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "n", TerminationGracePeriodSeconds: ptr.To(int64(30)), SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(1))},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}}},
			Overhead:   corev1.ResourceList{"cpu": resource.MustParse("1")},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &at},
	}
}

var patches = []string{
	`{}`,
	` { "metadata" : { "labels" : { "x" : null , "z" : "3" } } } `,
	`{"metadata":{"labels":{"x":"1","none":null}}}`,
	`{"metadata":{"labels":null,"annotations":{"a\"\u00e9\\":"b\n{\"c\":[1]}"}}}`,
	`{"metadata":{"annotations":{},"finalizers":["a","b"],"ownerReferences":null,"generation":3}}`,
	`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"w","controller":false}],"deletionTimestamp":"2026-01-02T00:00:00Z"}}`,
	`{"unknown":{"deep":[{"a":1}]},"spec":{"unknown":1,"nodeName":null,"hostNetwork":true}}`,
	`{"spec":{"securityContext":{"runAsUser":null,"fsGroup":5},"terminationGracePeriodSeconds":0}}`,
	`{"spec":{"securityContext":null,"affinity":{"nodeAffinity":{}},"overhead":{"cpu":"2","memory":"1Gi"}}}`,
	`{"spec":{"containers":[{"name":"c","image":"j","ports":[{"containerPort":80}],"livenessProbe":{"httpGet":{"port":"http"}}}]}}`,
	`{"spec":{"containers":[]}}`,
	`{"status":null}`,
	`{"status":{"conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"}],"startTime":null}}`,
	`{"status":{"startTime":"2026-01-01T00:00:00Z","phase":"Running"}}`,
}

// through is what the whole object becomes by way of JSON.
func through(t *testing.T, base *corev1.Pod, patch string) *corev1.Pod {
	t.Helper()
	before, err := json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	after, err := jsonpatch.MergePatch(before, []byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	made := &corev1.Pod{}
	if err := json.Unmarshal(after, made); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAPatchDoesToAnObjectWhatItDoesToItsJSON(t *testing.T) {
	var m Merger
	for _, base := range []*corev1.Pod{pod(), {}} {
		for _, patch := range patches {
			given := base.DeepCopy()
			got, changed, err := m.Apply(base, []byte(patch))
			if err != nil {
				t.Errorf("%s: %v", patch, err)
				continue
			}
			want := through(t, base, patch)
			if !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("%s makes\n%v, want\n%v", patch, got, want)
			}
			if differs := !equality.Semantic.DeepEqual(base, want); changed != differs {
				t.Errorf("%s: changed is %t, want %t", patch, changed, differs)
			}
			if !equality.Semantic.DeepEqual(base, given) {
				t.Fatalf("%s modified the object it was applied to", patch)
			}
		}
	}
}

func TestWhatAPatchLeavesAloneIsShared(t *testing.T) {
	var m Merger
	base := pod()
	made, _, err := m.Apply(base, []byte(`{"metadata":{"labels":{"x":"1"}},"spec":{"nodeName":"m","containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}}}]}}`))
	got, _ := made.(*corev1.Pod)
	if err != nil || got.Spec.NodeName != "m" {
		t.Fatal(made, err)
	}
	if &got.Spec.Containers[0] != &base.Spec.Containers[0] || got.Spec.SecurityContext != base.Spec.SecurityContext {
		t.Error("what is the same was copied")
	}
}

func TestPatchesThatFitNoPodAreErrors(t *testing.T) {
	var m Merger
	for _, patch := range []string{
		``, `{`, `[]`, `null`, `"a"`, `{"spec":1}`, `{"spec":{"nodeName":1}}`, `{"spec":{"containers":{}}}`, `{"spec":{"containers":[1]}}`,
		`{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"labels":[]}}`, `{"metadata":{"generation":1.5}}`, `{"spec":{"hostNetwork":"yes"}}`,
		`{"spec":{"securityContext":true}}`, `{"status":{"startTime":"now"}}`,
	} {
		if got, _, err := m.Apply(pod(), []byte(patch)); err == nil {
			t.Errorf("%s makes %v", patch, got)
		}
	}
	if _, _, err := m.Apply(corev1.Pod{}, []byte(`{}`)); err == nil {
		t.Error("a struct that cannot be set is patched")
	}
}

func BenchmarkApply(b *testing.B) {
	var m Merger
	base := pod()
	patch := []byte(`{"metadata":{"uid":"u","resourceVersion":"1"},"status":{"phase":"Failed","conditions":[{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":"m"}]}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := m.Apply(base, patch); err != nil {
			b.Fatal(err)
		}
	}
}
