// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/localcluster"
)

// A claim that names its template gets that, whatever becomes of the pools it could have
// been served from.
func TestAClaimOfAnyPoolKeepsToItsTemplate(t *testing.T) {
	w := newWorld(t)
	ofTemplate := func(name string) *extensions.SandboxClaim {
		c := w.newClaim(name, "")
		c.Spec = extensions.SandboxClaimSpec{TemplateRef: &extensions.SandboxTemplateRef{Name: "python"}}
		w.must(w.Create(w.Context(), c))
		return c
	}
	madeFrom := func(claim string) string {
		return w.sandbox(w.condition(claim, extensions.ConditionBound, metav1.ConditionTrue, "").Status.Sandbox.Name).Annotations[agents.AnnotationTemplateRef]
	}
	w.template("python", pending)
	w.template("other")
	pool := w.unfilled("pool", "python", 1)
	await(w, &agents.SandboxList{}, "a member", func(s *agents.Sandbox) bool { return strings.HasPrefix(s.Name, "pool-") })
	ofTemplate("waits")
	w.condition("waits", extensions.ConditionBound, metav1.ConditionFalse, extensions.ReasonWaitingForMember)
	w.merge(pool, spec(map[string]any{"sandboxTemplateRef": map[string]any{"name": "other"}}))
	if from := madeFrom("waits"); from != "python" {
		t.Errorf("the claim that waited got a Sandbox of template %s", from)
	}

	// A pool keeps the members of its former template. They are not for claims of its
	// present one that name it.
	w.merge(&extensions.SandboxTemplate{ObjectMeta: w.named("python")}, podAnnotations(map[string]any{localcluster.FakeOutcome: nil}))
	w.pool("warm", "other", 1)
	w.merge(&extensions.SandboxWarmPool{ObjectMeta: w.named("warm")}, spec(map[string]any{"sandboxTemplateRef": map[string]any{"name": "python"}}))
	w.full("warm", 1)
	ofTemplate("late")
	if from := madeFrom("late"); from != "python" {
		t.Errorf("the claim that came late got a Sandbox of template %s", from)
	}
	w.claim("of-the-pool", "warm")
	if from := madeFrom("of-the-pool"); from != "other" {
		t.Errorf("the claim of the pool got a Sandbox of template %s", from)
	}
}
