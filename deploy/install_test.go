// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestADefinitionThatIsBeingDeletedIsNotServed(t *testing.T) {
	crd := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}}}
	crd.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	if isEstablished(crd) {
		t.Error("it goes with its objects, and is taken as served")
	}
}
