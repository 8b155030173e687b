// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// An object may carry 256 KiB of annotations, and the claim's are recorded in one.
func TestMetadataThatASandboxCannotCarryIsToldAndNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 1)
	requests := w.requests(func() {
		w.claim("task", "python", func(c *extensions.SandboxClaim) {
			c.Spec.AdditionalPodMetadata.Annotations = map[string]string{"example.com/all": strings.Repeat("x", 300_000)}
		})
		told := w.condition("task", agents.ConditionReady, metav1.ConditionFalse, extensions.ReasonInvalidMetadata)
		if message := readyMessage(told.Status.Conditions); !strings.Contains(message, "metadata.annotations: Too long") {
			t.Errorf("the claim says %q", message)
		}
		for n := range 3 {
			w.pass("task", n)
		}
	})
	patches := 0
	for _, r := range requests {
		if r.Verb == "patch" && r.Resource == "sandboxes" && r.Subresource == "" {
			patches++
		}
	}
	if patches > 10 { // the adoption, and one for each of a few passes
		t.Errorf("Sandboxes were patched %d times", patches)
	}
	w.merge(&extensions.SandboxClaim{ObjectMeta: w.named("task")}, spec(map[string]any{"additionalPodMetadata": nil}))
	w.ready("task")
}
