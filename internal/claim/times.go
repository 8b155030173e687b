// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

// times are when this process saw things happen to a claim, or zero.
type times struct {
	seen, ready time.Time
	bound       bool
}

// memory keeps the times of claims, for the metrics and for annotations. It forgets a
// claim when it is gone, or when it is Ready and nothing more is to be done with them.
type memory struct {
	mu    sync.Mutex
	times map[types.UID]times
	keep  bool // after Ready, until they are written down
}

// see records when a claim was first seen. One that has been Ready is not timed.
func (m *memory) see(claim *extensions.SandboxClaim, now time.Time) {
	if hasBeenReady(claim) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.times[claim.UID]; !known {
		m.times[claim.UID] = times{seen: now, bound: isBound(claim.Status)}
	}
}

// news is what a claim's status tells for the first time.
type news struct{ bound, ready bool }

// learn takes in a status that the server has, and returns what of it is news.
func (m *memory) learn(claim *extensions.SandboxClaim, now time.Time) (times, news) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, known := m.times[claim.UID]
	if !known {
		return times{}, news{}
	}
	first := news{bound: !t.bound && isBound(claim.Status), ready: t.ready.IsZero() && isReady(claim.Status)}
	t.bound = t.bound || first.bound
	if first.ready {
		t.ready = now
	}
	if done := claim.Annotations[agents.AnnotationClaimFirstReadyAt] != "" || !m.keep; done && !t.ready.IsZero() {
		delete(m.times, claim.UID)
	} else {
		m.times[claim.UID] = t
	}
	return t, first
}

func (m *memory) forget(claim types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.times, claim)
}

// hasBeenReady reports whether a claim, as it is seen for the first time, has been Ready
// before: it says when, or is bound to what only a Ready claim is bound to.
func hasBeenReady(claim *extensions.SandboxClaim) bool {
	return claim.Annotations[agents.AnnotationClaimFirstReadyAt] != "" ||
		claim.Status.Sandbox.Name != "" && wasReady(claim)
}

// timesPatch writes the claim's times down as annotations, if it has none yet. It is done
// after the claim is Ready, so that nobody waits for it.
func timesPatch(claim *extensions.SandboxClaim, t times) (consistent.Patch, bool) {
	if !isReady(claim.Status) || claim.Annotations[agents.AnnotationClaimFirstReadyAt] != "" {
		return nil, false
	}
	annotations := map[string]any{agents.AnnotationClaimFirstReadyAt: agents.FirstReadyUnknown}
	if !t.ready.IsZero() {
		annotations[agents.AnnotationClaimFirstReadyAt] = t.ready.UTC().Format(time.RFC3339Nano)
	}
	if !t.seen.IsZero() && claim.Annotations[agents.AnnotationControllerFirstObservedAt] == "" {
		annotations[agents.AnnotationControllerFirstObservedAt] = t.seen.UTC().Format(time.RFC3339Nano)
	}
	return consistent.Patch{"metadata": map[string]any{"annotations": annotations}}, true
}
