// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// edition is the annotation by which these tests tell a template's versions apart.
const edition = "test.berth.dev/edition"

func strategy(kind extensions.SandboxWarmPoolUpdateStrategyType) func(*extensions.SandboxWarmPool) {
	return func(p *extensions.SandboxWarmPool) {
		p.Spec.UpdateStrategy = &extensions.SandboxWarmPoolUpdateStrategy{Type: kind}
	}
}

// editionOf is the edition of the template that the claim's Sandbox was made from.
func (w *world) editionOf(claim *extensions.SandboxClaim) int {
	w.Helper()
	n, err := strconv.Atoi(w.sandbox(claim.Status.Sandbox.Name).Spec.PodTemplate.Metadata.Annotations[edition])
	w.must(err)
	return n
}

func TestUnderRecreateNoClaimGetsABlueprintOlderThanItself(t *testing.T) {
	w := newWorld(t)
	python := w.template("python", func(t *extensions.SandboxTemplate) { annotate(t, edition, "0") })
	w.pool("python", "python", 20, strategy(extensions.WarmPoolRecreate))

	// Claims come in at the moment that an edit was acknowledged.
	const edits, each = 5, 10
	var burst sync.WaitGroup
	for n := 1; n <= edits; n++ {
		w.merge(python, podAnnotations(map[string]any{edition: strconv.Itoa(n)}))
		for i := range each {
			name := fmt.Sprintf("task-%d-%d", n, i)
			burst.Go(func() {
				if err := w.Create(w.Context(), w.newClaim(name, "python")); err != nil {
					t.Error(err)
				}
			})
		}
		if n%2 == 0 { // every other edit meets claims that are still coming in
			burst.Wait()
		}
	}
	burst.Wait()
	warm := 0
	for n := 1; n <= edits; n++ {
		for i := range each {
			claim := w.ready(fmt.Sprintf("task-%d-%d", n, i))
			if got := w.editionOf(claim); got < n {
				t.Errorf("claim %s was made after edition %d and got %d from %s", claim.Name, n, got, claim.Status.Sandbox.Name)
			}
			if claim.Status.Sandbox.Name != claim.Name {
				warm++
			}
		}
	}
	t.Logf("%d claims got a member of the pool", warm)

	// When the pool has the last edition, its members are handed out again.
	w.full("python", 20)
	w.claim("after", "python")
	after := w.ready("after")
	if got := w.editionOf(after); got != edits || !strings.HasPrefix(after.Status.Sandbox.Name, "python-") {
		t.Errorf("the last claim got edition %d from %s", got, after.Status.Sandbox.Name)
	}
}

func TestUnderOnReplenishOlderMembersAreHandedOut(t *testing.T) {
	w := newWorld(t)
	python := w.template("python", func(t *extensions.SandboxTemplate) { annotate(t, edition, "0") })
	w.pool("python", "python", 2, strategy(extensions.WarmPoolOnReplenish))
	w.merge(python, podAnnotations(map[string]any{edition: "1"}))
	for n, want := range []int{0, 0, 1} {
		name := fmt.Sprintf("task-%d", n)
		w.claim(name, "python")
		claim := w.ready(name)
		if got := w.editionOf(claim); got != want || claim.Status.Sandbox.Name == name {
			t.Errorf("claim %d got edition %d from %s, want edition %d of the pool", n, got, claim.Status.Sandbox.Name, want)
		}
		w.full("python", 2)
	}
	for _, s := range w.sandboxes() {
		if s.Labels[agents.LabelLaunchType] != agents.LaunchTypeWarm {
			t.Errorf("Sandbox %s started %s", s.Name, s.Labels[agents.LabelLaunchType])
		}
	}
}
