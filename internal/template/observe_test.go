// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"errors"
	"testing"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// undecided is a view of no Sandbox, of which one may still come into being.
type undecided struct {
	consistent.Kind[*agents.Sandbox]
}

func (undecided) By(context.Context, string, string) ([]*agents.Sandbox, error) { return nil, nil }

func (undecided) Undecided(string, string) []consistent.Attempt[*agents.Sandbox] {
	return []consistent.Attempt[*agents.Sandbox]{{Verb: consistent.VerbCreate}}
}

func TestAPolicyIsLookedAtAgainWhileASandboxMayStillComeIntoBeing(t *testing.T) {
	r := &Reconciler{views: kinds.Views{Sandboxes: undecided{}}}
	if _, err := r.observeLeftOver(t.Context(), observed{}); !errors.Is(err, errUndecided) {
		t.Errorf("got %v, want a pass that is repeated", err)
	}
}
