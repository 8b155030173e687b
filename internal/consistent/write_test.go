// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPatchesCarryWhatTheyWereDecidedOn(t *testing.T) {
	base := seenPod("a", "one", "u1", 5)
	for _, c := range []struct {
		name  string
		patch Patch
		want  string // "" is an error
	}{
		{"a patch of anything", Patch{"status": nil}, `{"metadata":{"resourceVersion":"5","uid":"u1"},"status":null}`},
		{"a patch of metadata", Patch{"metadata": map[string]any{"labels": nil}}, `{"metadata":{"labels":null,"resourceVersion":"5","uid":"u1"}}`},
		{"a patch of metadata that is a Patch itself", Patch{"metadata": Patch{"labels": nil}}, `{"metadata":{"labels":null,"resourceVersion":"5","uid":"u1"}}`},
		{"a condition of the caller's", Patch{"metadata": map[string]any{"uid": "u2", "resourceVersion": ""}}, `{"metadata":{"resourceVersion":"5","uid":"u1"}}`},
		{"metadata that is no map", Patch{"metadata": base.ObjectMeta}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := conditional(base, c.patch)
			if (err != nil) != (c.want == "") || string(body) != c.want {
				t.Errorf("got %s (%v), want %s", body, err, c.want)
			}
			if given, ok := c.patch["metadata"].(map[string]any); ok && given["labels"] == nil && given["resourceVersion"] == "5" {
				t.Error("the caller's patch was modified")
			}
		})
	}
}

func TestMergedIsWhatTheServerWouldMake(t *testing.T) {
	var v View[*corev1.Pod]
	base := seenPod("a", "one", "u1", 5)
	next := v.merged(base, []byte(`{"metadata":{"labels":{"owner":"two"}},"spec":{"nodeName":"n"}}`))
	if next.Labels["owner"] != "two" || next.Spec.NodeName != "n" || next.UID != "u1" {
		t.Errorf("got %v", next)
	}
	if base.Labels["owner"] != "one" {
		t.Error("the base was modified")
	}
	if got := v.merged(base, []byte(`{"spec":"none"}`)); got != base {
		t.Errorf("a patch that fits no pod gives %v", got)
	}
}
