// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestADefinitionWithoutConditionsIsNotServedYet(t *testing.T) {
	for name, c := range map[string]struct {
		conditions any
		want       bool
	}{
		"null conditions": {nil, false},
		"none":            {[]any{}, false},
		"others":          {[]any{map[string]any{"type": "NamesAccepted", "status": "True"}}, false},
		"not yet":         {[]any{map[string]any{"type": "Established", "status": "False"}}, false},
		"served":          {[]any{map[string]any{"type": "Established", "status": "True"}}, true},
	} {
		crd := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": c.conditions}}}
		if got := isEstablished(crd); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
