// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

func TestHowAStepMayEnd(t *testing.T) {
	undecided := func(err error) error { return &consistent.UndecidedError{Verb: consistent.VerbCreate, Err: err} }
	sandboxes := schema.GroupResource{Group: agents.GroupVersion.Group, Resource: "sandboxes"}
	newOne, member := create{sandbox: newSandbox("task")}, adopt{member: newSandbox("member")}
	internal := undecided(apierrors.NewInternalError(errors.New("webhook")))
	for name, c := range map[string]struct {
		step  step
		err   error
		times int
		ends  bool
		knows string
	}{
		"well": {step: newOne, times: 1},
		"a conflict is looked into, however often": {step: member, err: undecided(apierrors.NewConflict(sandboxes, "member", nil)), times: 5},
		"an object that is gone is looked into":    {step: member, err: consistent.ErrGone, times: 5},
		"a Sandbox that is there is looked into":   {step: newOne, err: undecided(apierrors.NewAlreadyExists(sandboxes, "task")), times: 5},
		"no answer is looked into once":            {step: newOne, err: undecided(errors.New("timeout")), times: 1},
		"no answer twice ends the pass":            {step: newOne, err: undecided(errors.New("timeout")), times: 2, ends: true},
		"a failing server is looked into once":     {step: newOne, err: internal, times: 1},
		"a server that fails twice refuses":        {step: newOne, err: internal, times: 2, knows: "refused"},
		"and bars adoptions":                       {step: member, err: internal, times: 2, knows: "barred"},
		"a status that it fails to write":          {step: writeStatus{}, err: internal, times: 2, ends: true},
		"a quota refuses":                          {step: newOne, err: apierrors.NewForbidden(sandboxes, "task", errors.New("quota")), times: 1, knows: "refused"},
		"a policy bars":                            {step: member, err: apierrors.NewForbidden(sandboxes, "member", errors.New("policy")), times: 1, knows: "barred"},
		"what is too large is barred":              {step: patchSandbox{sandbox: newSandbox("a")}, err: apierrors.NewRequestEntityTooLargeError("3 MiB"), times: 1, knows: "barred"},
		"the claim itself cannot be written":       {step: writeStatus{}, err: apierrors.NewForbidden(sandboxes, "task", errors.New("no")), times: 1, ends: true},
		"the informer is too far behind":           {step: newOne, err: consistent.ErrLagging, times: 1, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			var heard answers
			var err error
			for range c.times {
				err = heard.take(c.step, c.err)
			}
			knows := ""
			if heard.Refused != nil {
				knows = "refused"
			} else if heard.Barred != nil {
				knows = "barred"
			}
			if (err != nil) != c.ends || knows != c.knows {
				t.Errorf("the pass ends with %v and knows %q, want an error: %v, and %q", err, knows, c.ends, c.knows)
			}
		})
	}
}

func TestWritesOfTwoSandboxesAreNotTheSame(t *testing.T) {
	silence := &consistent.UndecidedError{Verb: consistent.VerbPatch, Err: errors.New("timeout")}
	var heard answers
	for _, name := range []string{"first", "second"} {
		if err := heard.take(adopt{member: newSandbox(name)}, silence); err != nil {
			t.Errorf("the adoption of %s ends the pass: %v", name, err)
		}
	}
}

func TestAnExpiredClaimDoesNotAskAFailingServerOverAndOver(t *testing.T) {
	seen := observed{
		Claim:     newClaim(expiredSince(extensions.ClaimShutdownRetain, true)),
		Undecided: []consistent.Attempt[*agents.Sandbox]{{Verb: consistent.VerbCreate, Intended: newSandbox("task")}},
	}
	if got := describe(decide(seen, now)); got != `create: create Sandbox "task" for the claim` {
		t.Errorf("what may still land is not found out: %s", got)
	}
	seen.Refused = apierrors.NewInternalError(errors.New("webhook"))
	if got := describe(decide(seen, now)); !strings.HasPrefix(got, "writeStatus: Ready=False/ClaimExpired") || seen.retry() == nil {
		t.Errorf("got %s, and then %v", got, seen.retry())
	}
}

func TestARefusalIsAskedAboutAgain(t *testing.T) {
	invalid := apierrors.NewInvalid(agents.GroupVersion.WithKind("Sandbox").GroupKind(), "task", nil)
	soon, late := now.Add(time.Second), now.Add(24*time.Hour)
	undecided := []consistent.Attempt[*agents.Sandbox]{{Verb: consistent.VerbCreate, Intended: newSandbox("task")}}
	for name, c := range map[string]struct {
		seen    observed
		until   time.Time
		want    time.Time
		retries bool
	}{
		"nothing was refused":                   {observed{}, time.Time{}, time.Time{}, false},
		"seldom, for what is invalid":           {observed{answers: answers{Refused: invalid}}, time.Time{}, now.Add(control.RefusedAgain), false},
		"seldom, for an adoption":               {observed{answers: answers{Barred: invalid}}, late, now.Add(control.RefusedAgain), false},
		"at what comes first":                   {observed{answers: answers{Barred: invalid}}, soon, soon, false},
		"soon, while the one before may land":   {observed{Undecided: undecided, answers: answers{Refused: invalid}}, time.Time{}, now.Add(control.RefusedAgain), true},
		"soon, while a quota may have room yet": {observed{answers: answers{Refused: apierrors.NewForbidden(schema.GroupResource{}, "task", nil)}}, late, now.Add(control.RefusedAgain), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.seen.askAgain(rest{until: c.until}, now).until; !got.Equal(c.want) {
				t.Errorf("rests until %s, want %s", got, c.want)
			}
			if err := c.seen.retry(); (err != nil) != c.retries {
				t.Errorf("the pass ends with %v", err)
			}
		})
	}
}
