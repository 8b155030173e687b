// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/manager/managertest"
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

// restocked waits until all members of a pool are ready and of an edition.
func (w *world) restocked(pool *extensions.SandboxWarmPool, replicas, of int) {
	w.Helper()
	for range w.changes(&agents.SandboxList{}, fmt.Sprintf("the members of pool %s to be of edition %d", pool.Name, of)) {
		members, good := 0, 0
		for _, s := range w.sandboxes() {
			if !control.IsControlledBy(&s, pool.UID) {
				continue
			}
			members++
			ready := findCondition(s.Status.Conditions, agents.ConditionReady)
			if ready != nil && ready.Status == metav1.ConditionTrue && s.Spec.PodTemplate.Metadata.Annotations[edition] == strconv.Itoa(of) {
				good++
			}
		}
		if members == replicas && good == replicas {
			return
		}
	}
}

func TestUnderRecreateNoClaimGetsABlueprintOlderThanItself(t *testing.T) {
	w := newWorld(t)
	python := w.template("python", func(t *extensions.SandboxTemplate) { annotate(t, edition, "0") })
	pool := w.pool("python", "python", 20, strategy(extensions.WarmPoolRecreate))

	// Claims come in at the moment that an edit was acknowledged.
	const edits, each = 20, 15
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
	for n := 1; n <= edits; n++ {
		for i := range each {
			claim := w.ready(fmt.Sprintf("task-%d-%d", n, i))
			if got := w.editionOf(claim); got < n {
				t.Errorf("claim %s was made after edition %d and got %d from %s", claim.Name, n, got, claim.Status.Sandbox.Name)
			}
		}
	}

	// When the pool has the last edition, its members are handed out again.
	w.restocked(pool, 20, edits)
	w.claim("after", "python")
	after := w.ready("after")
	if got := w.editionOf(after); got != edits || !strings.HasPrefix(after.Status.Sandbox.Name, "python-") {
		t.Errorf("the last claim got edition %d from %s", got, after.Status.Sandbox.Name)
	}
}

// The guarantee does not rest on a watch that happens to be quick.
func TestAnAcknowledgedEditCountsBeforeTheControllersSeeIt(t *testing.T) {
	w := newWorld(t)
	w.manager.Stop(t)
	var templates hold
	w.manager = managertest.Start(t, cluster, managertest.Options{
		Controllers: w.controllers(),
		Config:      func(c *rest.Config) { c.Wrap(templates.wrap("sandboxtemplates")) },
	})
	python := w.template("python", func(t *extensions.SandboxTemplate) { annotate(t, edition, "0") })
	pool := w.pool("python", "python", 3, strategy(extensions.WarmPoolRecreate))

	release := templates.close()
	w.merge(python, podAnnotations(map[string]any{edition: "1"}))
	all := names("task", 3)
	w.claims("python", all...)
	for _, name := range all {
		claim := w.ready(name)
		if got := w.editionOf(claim); got != 1 {
			t.Errorf("claim %s was made after edition 1 and got %d from %s", name, got, claim.Status.Sandbox.Name)
		}
	}
	release()
	w.restocked(pool, 3, 1)
	w.claim("after", "python")
	if after := w.ready("after"); w.editionOf(after) != 1 || !strings.HasPrefix(after.Status.Sandbox.Name, "python-") {
		t.Errorf("the last claim got edition %d from %s", w.editionOf(after), after.Status.Sandbox.Name)
	}
}

// hold keeps back what the watches of a kind deliver.
type hold struct {
	mu   sync.Mutex
	gate chan struct{} // nil if nothing is held
}

// close begins to hold, until the function it returns is called.
func (h *hold) close() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gate := make(chan struct{})
	h.gate = gate
	return func() { close(gate) }
}

func (h *hold) wait(ctx context.Context) {
	h.mu.Lock()
	gate := h.gate
	h.mu.Unlock()
	if gate == nil {
		return
	}
	select {
	case <-gate:
	case <-ctx.Done():
	}
}

// wrap returns a transport whose watches of the kind are held.
func (h *hold) wrap(plural string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil && request.URL.Query().Get("watch") != "" && path.Base(request.URL.Path) == plural {
				response.Body = &heldBody{response.Body, h, request.Context()}
			}
			return response, err
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

type heldBody struct {
	io.ReadCloser
	hold *hold
	ctx  context.Context
}

// Read holds what was read, which may have begun before the hold did.
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.hold.wait(b.ctx)
	return n, err
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
