// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"encoding/json"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestDiffIsTheLeastMergePatch(t *testing.T) {
	from := corev1.PodStatus{Phase: corev1.PodPending, Message: "m", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}
	if p, differ, err := Diff(from, from); differ || err != nil {
		t.Errorf("equal values differ: %v (%v)", p, err)
	}
	to := corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: from.PodIPs}
	p, differ, err := Diff(from, to)
	if err != nil || !differ || len(p) != 2 || p["phase"] != "Running" {
		t.Errorf("got %v (%v)", p, err)
	}
	if message, set := p["message"]; !set || message != nil {
		t.Errorf("a value that was removed is not removed by %v", p)
	}
}

// states are parts of an object, each of which may become any other.
func states() []corev1.PodStatus {
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return []corev1.PodStatus{
		{},
		{Phase: corev1.PodRunning, ObservedGeneration: 1},
		{Phase: corev1.PodFailed, ObservedGeneration: 2, Message: "m", StartTime: &at},
		{StartTime: &at, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}},
		{StartTime: ptr.To(metav1.NewTime(at.Add(time.Hour))), PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}}},
		{PodIPs: []corev1.PodIP{}, Conditions: []corev1.PodCondition{{Type: "A", Status: "True", LastProbeTime: at, LastTransitionTime: at}}},
		{Resources: &corev1.ResourceRequirements{}},
		{Resources: &corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "a"}}, Limits: corev1.ResourceList{"cpu": {}}}},
		{Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": {}}}},
	}
}

func TestADiffTurnsEachStateIntoEachOther(t *testing.T) {
	text := func(value any) []byte {
		made, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	for _, from := range states() {
		for _, to := range states() {
			before, after := text(from), text(to)
			p, differ, err := Diff(from, to)
			if err != nil {
				t.Fatal(err)
			}
			got, err := jsonpatch.MergePatch(before, text(p))
			if err != nil {
				t.Fatal(err)
			}
			if !jsonpatch.Equal(got, after) {
				t.Errorf("%s with %s is %s, want %s", before, text(p), got, after)
			}
			least, err := jsonpatch.CreateMergePatch(before, after)
			if err != nil {
				t.Fatal(err)
			}
			if !jsonpatch.Equal(text(p), least) || differ != (string(least) != "{}") {
				t.Errorf("%s to %s takes %s, want %s (%t)", before, after, text(p), least, differ)
			}
		}
	}
}

func TestADiffFollowsTheNamesOfFields(t *testing.T) {
	type Inner struct{ Kept, Inlined string }
	type outer struct {
		Inner   `json:",inline"`
		Renamed string `json:"another"`
		Hidden  string `json:"-"`
		Plain   int
		Zero    metav1.Time `json:"zero,omitzero"`
	}
	to := outer{Inner: Inner{Inlined: "a"}, Renamed: "b", Hidden: "c", Plain: 1}
	p, _, err := Diff(outer{Zero: metav1.NewTime(time.Unix(1, 0))}, to)
	made, _ := json.Marshal(p)
	if want := `{"Inlined":"a","Plain":1,"another":"b","zero":null}`; err != nil || string(made) != want {
		t.Errorf("got %s (%v), want %s", made, err, want)
	}
	if _, _, err := Diff(1, 2); err == nil {
		t.Error("numbers have a merge patch")
	}
}
