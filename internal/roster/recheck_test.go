// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestAMemberThatWasSetAsideIsReadyAgainOnceItIsToBeRechecked(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	r.Enter(python, claimOf(0))
	r.Take(python, claimOf(0))
	if woken := r.Recheck(memberOf(0).UID); !slices.Equal(woken, []types.NamespacedName{claimOf(0).Key}) {
		t.Errorf("while it is promised, %v look once more", woken)
	}
	r.Take(python, claimOf(0))
	r.Reject(claimOf(0).UID)
	r.Enter(python, claimOf(1))
	if ready := r.Standing(python).Ready; ready != 0 {
		t.Fatalf("%d members are ready", ready)
	}
	if woken := r.Recheck(memberOf(0).UID); !slices.Equal(woken, []types.NamespacedName{claimOf(0).Key}) {
		t.Errorf("once it is set aside, %v look, want the oldest claim", woken)
	}
	if offer := r.Take(python, claimOf(0)); offer.Member == nil || *offer.Member != memberOf(0) {
		t.Errorf("the oldest claim is offered %+v", offer)
	}
	if woken := r.Recheck(memberOf(1).UID); woken != nil {
		t.Errorf("for a member that nobody knows %v look", woken)
	}
}

// A claim looks at a member and its pods, and what it looks at changes meanwhile.
func TestAMemberThatChangesWhileAClaimLooksIsNotSetAside(t *testing.T) {
	var younger, oldest = claimOf(1), claimOf(0)
	recheck := func(r *Roster) { r.Recheck(memberOf(0).UID) }
	update := func(state State) func(*Roster) {
		return func(r *Roster) { r.Update(python, memberOf(0), state) }
	}
	for name, c := range map[string]struct {
		happens func(*Roster)
		by      func(*Roster, types.UID) []types.NamespacedName
		offered bool
		wait    bool
	}{
		"nothing happened":                       {func(*Roster) {}, (*Roster).Reject, false, false},
		"the member is as it should be":          {update(Ready), (*Roster).Reject, true, false},
		"the pod is":                             {recheck, (*Roster).Reject, true, false},
		"the claim would pass it on":             {recheck, (*Roster).PassOn, true, false},
		"the member comes up again":              {update(ComingUp), (*Roster).Reject, false, true},
		"it comes up, and so does the pod":       {func(r *Roster) { update(ComingUp)(r); recheck(r) }, (*Roster).Reject, false, true},
		"it comes up, and the claim needs none":  {update(ComingUp), (*Roster).Leave, false, true},
		"it is ready, and the claim needs none":  {update(Ready), (*Roster).Leave, true, false},
		"it comes up, and is ready, and it must": {func(r *Roster) { update(ComingUp)(r); update(Ready)(r) }, (*Roster).Reject, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(nil)
			r.Update(python, memberOf(0), Ready)
			r.Take(python, oldest)
			c.happens(r)
			c.by(r, oldest.UID)
			r.Leave(oldest.UID)
			if offer := r.Take(python, younger); (offer.Member != nil) != c.offered || offer.Wait != c.wait {
				t.Errorf("the next claim is offered %+v", offer)
			}
		})
	}
}

func TestAMemberThatNobodyWaitsForWakesThoseWhoLookOn(t *testing.T) {
	rust := types.NamespacedName{Namespace: "default", Name: "rust"}
	onlooker, away := claimOf(1), claimOf(2)
	lookOn := func(m Member) []types.UID {
		if m.Template != "any" {
			return nil
		}
		return []types.UID{onlooker.UID, away.UID}
	}
	for name, happens := range map[string]func(*Roster) []types.NamespacedName{
		"it is ready": func(r *Roster) []types.NamespacedName {
			return r.Update(rust, Member{UID: "new", Template: "any"}, Ready)
		},
		"the claim that had it leaves": func(r *Roster) []types.NamespacedName { return r.Leave(claimOf(0).UID) },
		"the claim that had it goes":   func(r *Roster) []types.NamespacedName { return r.Gone(claimOf(0).UID) },
		"its pod is well again": func(r *Roster) []types.NamespacedName {
			r.Reject(claimOf(0).UID)
			r.Leave(claimOf(0).UID)
			return r.Recheck("member")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(lookOn)
			r.Update(rust, Member{UID: "member", Template: "any"}, Ready)
			r.Take(rust, claimOf(0))
			r.Update(python, memberOf(0), ComingUp)
			if offer := r.Take(python, onlooker); !offer.Wait {
				t.Fatalf("the onlooker is offered %+v", offer)
			}
			if woken := happens(r); !slices.Equal(woken, []types.NamespacedName{onlooker.Key}) {
				t.Errorf("%v look", woken)
			}
		})
	}
}

func TestWhatIsFreeForAClaim(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*Roster)
		want    int
	}{
		"nothing is known":             {func(*Roster) {}, 0},
		"all of it":                    {func(r *Roster) { r.Update(python, memberOf(0), Ready); r.Update(python, memberOf(1), Ready) }, 2},
		"not what is for another":      {func(r *Roster) { r.Enter(python, claimOf(1)); r.Update(python, memberOf(0), Ready) }, 0},
		"nor what is coming up":        {func(r *Roster) { r.Update(python, memberOf(0), ComingUp) }, 0},
		"what it waits for itself":     {func(r *Roster) { r.Enter(python, claimOf(0)); r.Update(python, memberOf(0), Ready) }, 1},
		"what it has been promised":    {func(r *Roster) { r.Update(python, memberOf(0), Ready); r.Take(python, claimOf(0)) }, 1},
		"what another is promised":     {func(r *Roster) { r.Update(python, memberOf(0), Ready); r.Take(python, claimOf(1)) }, 0},
		"what others wait for in vain": {func(r *Roster) { r.Enter(python, claimOf(1)); r.Enter(python, claimOf(2)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(nil)
			c.happens(r)
			if got := r.Free(python, claimOf(0).UID); got != c.want {
				t.Errorf("%d are free, want %d", got, c.want)
			}
		})
	}
}
