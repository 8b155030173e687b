// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestTheVersionOfSandboxesIsOneThatTheServerHas(t *testing.T) {
	version := func(name string, served bool) any {
		return map[string]any{"name": name, "served": served, "storage": false}
	}
	for name, test := range map[string]struct {
		established string
		versions    []any
		want        string
	}{
		"the one this program was made for":      {"True", []any{version("v1alpha1", true), version("v1beta1", true), version("v1", true)}, "v1beta1"},
		"an older one where it is the only":      {"True", []any{version("v1alpha1", true)}, "v1alpha1"},
		"a newer one where ours is gone":         {"True", []any{version("v1beta1", false), version("v1", true)}, "v1"},
		"none where none is served":              {"True", []any{version("v1beta1", false)}, ""},
		"none before the definition is in force": {"False", []any{version("v1beta1", true)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			definition := &unstructured.Unstructured{Object: map[string]any{
				"spec":   map[string]any{"versions": test.versions},
				"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": test.established}}},
			}}
			if got := servedVersionOf(definition); got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
			now := unstructured.Unstructured{Object: definition.DeepCopy().Object}
			_ = unstructured.SetNestedField(now.Object, "2026-08-01T12:00:00Z", "metadata", "deletionTimestamp")
			if got := servedVersionOf(&now); got != "" {
				t.Errorf("it is %q while the definition goes", got)
			}
		})
	}
}
