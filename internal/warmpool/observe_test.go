// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

func TestAMemberHasAPoolAsItsController(t *testing.T) {
	by := func(apiVersion, kind string) func(*agents.Sandbox) {
		return func(s *agents.Sandbox) { s.OwnerReferences[0].APIVersion, s.OwnerReferences[0].Kind = apiVersion, kind }
	}
	cases := map[string]struct {
		edit            func(*agents.Sandbox)
		indexed, member bool
	}{
		"made by the pool":                   {func(*agents.Sandbox) {}, true, true},
		"made at an older version":           {by("extensions.agents.x-k8s.io/v1alpha1", "SandboxWarmPool"), true, true},
		"of a claim with the pool's UID":     {by("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim"), true, false},
		"of a ConfigMap with the pool's UID": {by("v1", "ConfigMap"), false, false},
		"of another group's pool":            {by("example.com/v1", "SandboxWarmPool"), false, false},
		"owned but not controlled":           {func(s *agents.Sandbox) { s.OwnerReferences[0].Controller = nil }, false, false},
		"of nobody":                          {func(s *agents.Sandbox) { s.OwnerReferences = []metav1.OwnerReference{} }, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := member("x", "new", 0, c.edit)
			if got := len(kinds.Sandboxes().Indexes[kinds.ByController](s)) > 0; got != c.indexed {
				t.Errorf("found by its controller: %t", got)
			}
			other := member("y", "new", 0)
			if got := len(membersAmong([]*agents.Sandbox{s, other})) == 2; got != c.member {
				t.Errorf("is a member: %t", got)
			}
		})
	}
}

func TestARefusalIsForgottenWithTheWorkThatWasRefused(t *testing.T) {
	inFlight := func(s *scene) { s.InFlight = []string{"x"} }
	cases := map[string]struct {
		seen             *scene
		creates, deletes bool // are still refused
	}{
		"members are missing":             {newScene(onReplenish, readyMembers(2, "new")...), true, false},
		"a create may still land":         {newScene(onReplenish, readyMembers(2, "new")...).with(inFlight), true, false},
		"all are there":                   {newScene(onReplenish, readyMembers(3, "new")...), false, false},
		"there are too many":              {newScene(onReplenish, readyMembers(4, "new")...), false, true},
		"one will never be Ready":         {newScene(onReplenish, append(readyMembers(2, "new"), member("x", "new", 0, finished))...), false, true},
		"some are of an older blueprint":  {newScene(recreate, readyMembers(3, "old")...), false, true},
		"older ones wait for a claim":     {newScene(onReplenish, readyMembers(3, "old")...), false, false},
		"older ones cannot be missed yet": {newScene(rolling, append(readyMembers(2, "old"), member("x", "new", 0))...), false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := New(control.Environment{Clock: clocktesting.NewFakePassiveClock(now)}, kinds.Views{}, Options{})
			seen := c.seen.with(refusedCreates(1, 0)).observed
			seen.Memory.Deletes = refusal{Reason: extensions.ReasonPoolError, Message: "no", Count: 1, At: now, Of: seen.versions(), Limit: 1}
			r.memories.set(seen.key(), seen.Memory)
			got := r.remember(seen.key(), &seen)
			if creates, deletes := got.Creates.Count > 0, got.Deletes.Count > 0; creates != c.creates || deletes != c.deletes {
				t.Errorf("creates are refused: %t, deletes: %t", creates, deletes)
			}
			if r.memories.of(seen.key(), seen.Pool.UID) != got {
				t.Error("that is not remembered")
			}
			seen.Memory = got
			if reason := progressing(seen, takeStock(seen, now), now).Reason; !c.creates && !c.deletes &&
				(reason == extensions.ReasonCreateRefused || reason == extensions.ReasonPoolError) {
				t.Errorf("the pool still says %s", reason)
			}
			seen.Memory = memory{}
			seen.Pool.Status.Conditions = []metav1.Condition{{
				Type: extensions.ConditionProgressing, Status: metav1.ConditionFalse, Reason: extensions.ReasonCreateRefused, ObservedGeneration: seen.Pool.Generation,
			}}
			if foreseen := told(seen, now).Creates.Count > 0; foreseen != c.creates {
				t.Errorf("it is foreseen that creates are refused: %t", foreseen)
			}
		})
	}
}
