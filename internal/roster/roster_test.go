// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var python = types.NamespacedName{Namespace: "default", Name: "python"}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

func memberOf(n int) Member {
	name := fmt.Sprintf("member-%d", n)
	return Member{Key: key(name), UID: types.UID(name)}
}

// claimOf is a claim created n seconds after the first.
func claimOf(n int) Claim {
	name := fmt.Sprintf("claim-%d", n)
	return Claim{Key: key(name), UID: types.UID(name), Created: time.Unix(int64(n), 0)}
}

func TestReadyMembersGoToTheOldestClaimsWhoeverAsksFirst(t *testing.T) {
	r := New(nil)
	for n := range 3 {
		r.Enter(python, claimOf(n))
	}
	r.Update(python, memberOf(0), Ready) // promised to the oldest at once
	if offer := r.Take(python, claimOf(2)); offer.Member != nil || offer.Wait {
		t.Errorf("the youngest of three got %+v, want to start cold", offer)
	}
	if offer := r.Take(python, claimOf(0)); offer.Member == nil || *offer.Member != memberOf(0) {
		t.Errorf("the oldest got %+v", offer)
	}
}

func TestMembersAreKeptForTheOldestClaimsWhileAllIsReadAtTheStart(t *testing.T) {
	r := New(nil)
	r.Enter(python, claimOf(1))
	r.Update(python, memberOf(0), Ready)
	r.Enter(python, claimOf(0))
	if offer := r.Take(python, claimOf(1)); offer.Member != nil || offer.Wait {
		t.Errorf("the younger claim is offered %+v", offer)
	}
	if offer := r.Take(python, claimOf(0)); offer.Member == nil {
		t.Errorf("the older claim is offered %+v", offer)
	}
}

func TestAMemberThatIsKeptAtTheStartGoesToTheNextWhenTheOldestNeedNone(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	r.Enter(python, claimOf(0))
	r.Enter(python, claimOf(1))
	if offer := r.Take(python, claimOf(1)); offer.Member != nil || offer.Wait {
		t.Fatalf("the younger claim is offered %+v", offer)
	}
	if ready, _ := r.Stay(python, claimOf(1)); ready {
		t.Fatal("the younger claim, which cannot start cold, is to take what is kept for the older")
	}
	if woken := r.Leave(claimOf(0).UID); !slices.Equal(woken, []types.NamespacedName{claimOf(1).Key}) {
		t.Errorf("once the older claim has left, %v look once more", woken)
	}
}

func TestAClaimWaitsOnlyIfAMemberIsComingUpForItsRank(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), ComingUp)
	r.Update(python, memberOf(1), ComingUp)
	var waits []bool
	for n := range 4 {
		waits = append(waits, r.Take(python, claimOf(n)).Wait)
	}
	if want := []bool{true, true, false, false}; !cmp.Equal(want, waits) {
		t.Errorf("waiting: %v, want %v", waits, want)
	}
	if s := r.Standing(python); s != (Standing{ComingUp: 2, Waiting: 2}) {
		t.Errorf("those that start cold are still in the queue: %+v", s)
	}
}

func TestAMemberThatBecomesReadyWakesTheOldestWaiter(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), ComingUp)
	r.Update(python, memberOf(1), ComingUp)
	r.Take(python, claimOf(1))
	r.Take(python, claimOf(0))
	if woken := r.Update(python, memberOf(1), Ready); !cmp.Equal([]types.NamespacedName{key("claim-0")}, woken) {
		t.Errorf("woke %v", woken)
	}
	if offer := r.Take(python, claimOf(0)); offer.Member == nil || *offer.Member != memberOf(1) {
		t.Errorf("the woken claim was offered %+v", offer)
	}
}

func TestAMemberThatIsLostWakesTheClaimItWasComingUpFor(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), ComingUp)
	r.Take(python, claimOf(0))
	if woken := r.Update(python, memberOf(0), Absent); !cmp.Equal([]types.NamespacedName{key("claim-0")}, woken) {
		t.Errorf("woke %v", woken)
	}
	if offer := r.Take(python, claimOf(0)); offer.Member != nil || offer.Wait {
		t.Errorf("offered %+v, want to start cold", offer)
	}
}

func TestAPromiseIsKeptUntilTheClaimIsDone(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	first := r.Take(python, claimOf(5))
	again := r.Take(python, claimOf(5))
	if first.Member == nil || again.Member == nil || *first.Member != *again.Member {
		t.Fatalf("offered %+v, then %+v", first, again)
	}
	if offer := r.Take(python, claimOf(1)); offer.Member != nil {
		t.Errorf("an older claim was offered the promised member")
	}
}

func TestAMemberThatIsNotAdoptedGoesToTheNextClaim(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	r.Update(python, memberOf(1), ComingUp)
	r.Take(python, claimOf(0))
	r.Take(python, claimOf(1))
	if woken := r.Leave("claim-0"); !cmp.Equal([]types.NamespacedName{key("claim-1")}, woken) {
		t.Errorf("woke %v", woken)
	}
	if offer := r.Take(python, claimOf(1)); offer.Member == nil || *offer.Member != memberOf(0) {
		t.Errorf("offered %+v", offer)
	}
}

func TestARejectedMemberIsForgottenUntilItChanges(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	r.Update(python, memberOf(1), Ready)
	r.Take(python, claimOf(0))
	r.Reject("claim-0")
	if offer := r.Take(python, claimOf(0)); offer.Member == nil || *offer.Member != memberOf(1) {
		t.Errorf("offered %+v, want the other member", offer)
	}
	r.Update(python, memberOf(0), Ready)
	if offer := r.Take(python, claimOf(1)); offer.Member == nil || *offer.Member != memberOf(0) {
		t.Errorf("offered %+v, want the member that changed", offer)
	}
}

func TestARejectedMemberIsOneLessForThoseThatWait(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), ComingUp)
	r.Update(python, memberOf(1), ComingUp)
	r.Take(python, claimOf(0))
	r.Take(python, claimOf(1))
	r.Update(python, memberOf(0), Ready)
	r.Update(python, memberOf(1), Absent)
	// claim-1 was told that it waits in vain and waits on; claim-0 gives up its member.
	r.Update(python, memberOf(2), ComingUp)
	if offer := r.Take(python, claimOf(1)); !offer.Wait {
		t.Fatalf("offered %+v, want to wait", offer)
	}
	if woken := r.Reject("claim-0"); !cmp.Equal([]types.NamespacedName{key("claim-1")}, woken) {
		t.Errorf("woke %v, want the claim behind", woken)
	}
}

func TestAMemberThatIsNotForOneClaimGoesToTheNext(t *testing.T) {
	r := New(nil)
	for n := range 3 {
		r.Enter(python, claimOf(n))
	}
	r.Take(python, claimOf(2)) // all that is read at the start has been
	r.Stay(python, claimOf(2))
	r.Update(python, memberOf(0), Ready)
	for n := range 2 {
		if offer := r.Take(python, claimOf(n)); offer.Member == nil || *offer.Member != memberOf(0) {
			t.Fatalf("claim %d is offered %+v", n, offer)
		}
		if woken := r.PassOn(claimOf(n).UID); !slices.Equal(woken, []types.NamespacedName{claimOf(n + 1).Key}) {
			t.Errorf("after claim %d %v look", n, woken)
		}
	}
	if woken := r.PassOn(claimOf(2).UID); woken != nil {
		t.Errorf("after the last, %v look", woken)
	}
	if offer := r.Take(python, claimOf(3)); offer.Member != nil {
		t.Errorf("what was set aside is offered like any other: %+v", offer)
	}
	if offer := r.TakeRejected(python, claimOf(3), nil); offer.Member == nil {
		t.Error("what was set aside is not there for a second look")
	}
	first := claimOf(0)
	if woken := r.Leave(claimOf(3).UID); !slices.Equal(woken, []types.NamespacedName{first.Key}) {
		t.Fatalf("once the last has left, %v look", woken)
	}
	if woken := r.PassOn(first.UID); woken != nil {
		t.Errorf("those who cannot adopt it look again: %v", woken)
	}
	if woken := r.Update(python, memberOf(0), Ready); len(woken) != 1 {
		t.Errorf("once it has changed, %v look", woken)
	}
	if woken := r.PassOn("nobody"); woken != nil {
		t.Errorf("after nobody, %v look", woken)
	}
}

// A claim that names a pool rejects a member, one of a template passes it on. Each would
// wake the other for good.
func TestAMemberThatAClaimRejectedDoesNotComeBackToIt(t *testing.T) {
	r := New(nil)
	first, second := claimOf(0), claimOf(1)
	r.Enter(python, first)
	r.Enter(python, second)
	r.Update(python, memberOf(0), Ready)
	if offer := r.Take(python, first); offer.Member == nil {
		t.Fatalf("the first is offered %+v", offer)
	}
	r.Reject(first.UID)
	if offer := r.TakeRejected(python, second, nil); offer.Member == nil {
		t.Fatalf("the second is offered %+v", offer)
	}
	if woken := r.PassOn(second.UID); woken != nil {
		t.Errorf("%v look again at what they rejected", woken)
	}
	if woken := r.Recheck(memberOf(0).UID); len(woken) != 1 {
		t.Fatalf("once its pod has changed %v look", woken)
	}
	if woken := r.Recheck(memberOf(0).UID); len(woken) != 1 {
		t.Fatalf("once more %v look", woken)
	}
	r.Take(python, first)
	if woken := r.PassOn(first.UID); !slices.Equal(woken, []types.NamespacedName{second.Key}) {
		t.Errorf("after that, %v look", woken)
	}
}

func TestWhatRejectedIsForgottenWithItsClaim(t *testing.T) {
	r := New(nil)
	r.Enter(python, claimOf(0))
	r.Update(python, memberOf(0), Ready)
	r.Take(python, claimOf(0))
	r.Reject(claimOf(0).UID)
	r.Leave(claimOf(0).UID) // it may come back
	if n := r.pools[python].declined[memberOf(0).UID].Len(); n != 1 {
		t.Errorf("%d claims have rejected the member", n)
	}
	r.Gone(claimOf(0).UID)
	if n := r.pools[python].declined[memberOf(0).UID].Len(); n != 0 {
		t.Errorf("%d claims that are gone have rejected the member", n)
	}
}

func TestAnOlderClaimThatComesLateWakesTheOneThatWaitsInVain(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), ComingUp)
	r.Take(python, claimOf(1))
	if woken := r.Enter(python, claimOf(0)); !cmp.Equal([]types.NamespacedName{key("claim-1")}, woken) {
		t.Errorf("woke %v", woken)
	}
	if woken := r.Enter(python, claimOf(0)); len(woken) > 0 {
		t.Errorf("woke %v once more", woken)
	}
}

func TestAClaimThatCannotStartColdStaysForTheNextMember(t *testing.T) {
	r := New(nil)
	if offer := r.Take(python, claimOf(0)); offer.Member != nil || offer.Wait {
		t.Fatalf("offered %+v, want to start cold", offer)
	}
	if ready, _ := r.Stay(python, claimOf(0)); ready {
		t.Error("a member is ready in an empty pool")
	}
	if woken := r.Update(python, memberOf(0), Ready); !cmp.Equal([]types.NamespacedName{key("claim-0")}, woken) {
		t.Errorf("woke %v", woken)
	}
	if ready, _ := r.Stay(python, claimOf(0)); !ready {
		t.Error("the promised member is not ready")
	}
	r.Update(python, memberOf(1), Ready)
	if ready, _ := r.Stay(python, claimOf(1)); !ready {
		t.Error("a member that became ready before the claim stayed is not seen")
	}
}

func TestAnAdoptedMemberIsNobodyElses(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	r.Take(python, claimOf(0))
	r.Won("claim-0")
	if woken := r.Update(python, memberOf(0), Absent); woken != nil {
		t.Errorf("woke %v", woken)
	}
	if offer := r.Take(python, claimOf(1)); offer.Member != nil {
		t.Errorf("offered the adopted member again")
	}
}

func TestAClaimWhoseAdoptionIsSeenBeforeItsAnswerWaitsForNothing(t *testing.T) {
	r := New(nil)
	for n := range 2 {
		r.Update(python, memberOf(n), Ready)
		r.Enter(python, claimOf(n))
	}
	r.Take(python, claimOf(0))
	if woken := r.Adopted(python, memberOf(0), "claim-0"); woken != nil {
		t.Errorf("woke %v", woken)
	}
	if offer := r.Take(python, claimOf(1)); offer.Member == nil {
		t.Errorf("offered %+v: a claim that is served stands before the one that is not", offer)
	}
}

func TestAMemberThatAnotherClaimAdoptedIsWithdrawn(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	r.Take(python, claimOf(0))
	if woken := r.Adopted(python, memberOf(0), "claim-1"); !cmp.Equal([]types.NamespacedName{key("claim-0")}, woken) {
		t.Errorf("woke %v, want the claim that lost its member", woken)
	}
	if s := r.Standing(python); s != (Standing{Waiting: 1}) {
		t.Errorf("the claim does not wait again: %+v", s)
	}
}

func TestAPromisedMemberThatIsLostWakesItsClaimAtItsOldRank(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	r.Take(python, claimOf(0))
	r.Update(python, memberOf(1), ComingUp)
	r.Take(python, claimOf(1))
	if woken := r.Update(python, memberOf(0), Absent); !cmp.Equal([]types.NamespacedName{key("claim-0"), key("claim-1")}, woken) {
		t.Errorf("woke %v, want the claim that lost its member, and the one that waits in vain behind it", woken)
	}
	if offer := r.Take(python, claimOf(0)); !offer.Wait {
		t.Errorf("offered %+v, want to wait before the younger claim", offer)
	}
}

func TestPoolsOfTheSameNameInOtherNamespacesAreApart(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	other := types.NamespacedName{Namespace: "other", Name: "python"}
	if offer := r.Take(other, claimOf(0)); offer.Member != nil || offer.Wait {
		t.Errorf("offered %+v from another namespace's pool", offer)
	}
}

// Whatever happens in whatever order, no member is promised to two claims, no claim is
// lost from the books, and nothing is left of pools that are empty.
func TestBooksBalance(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		r := New(nil)
		for range 300 {
			n := random.IntN(12)
			switch random.IntN(6) {
			case 0, 1:
				r.Update(python, memberOf(n), State(random.IntN(3)))
			case 2:
				r.Take(python, claimOf(n))
			case 3:
				r.Leave(claimOf(n).UID)
			case 4:
				r.Reject(claimOf(n).UID)
			case 5:
				r.Enter(python, claimOf(n))
			}
			check(t, r)
		}
		for n := range 12 {
			r.Leave(claimOf(n).UID)
			r.Update(python, memberOf(n), Absent)
		}
		if len(r.pools) > 0 || len(r.waiting) > 0 {
			t.Fatalf("seed %d: left over: %d pools, %d claims", seed, len(r.pools), len(r.waiting))
		}
	}
}

func check(t *testing.T, r *Roster) {
	t.Helper()
	p, ok := r.pools[python]
	if !ok {
		return
	}
	promised := map[types.UID]types.UID{}
	for claim, given := range p.promised {
		if other, twice := promised[given.member.UID]; twice {
			t.Fatalf("%s is promised to %s and %s", given.member.UID, claim, other)
		}
		promised[given.member.UID] = claim
		if p.taken[given.member.UID] != claim {
			t.Fatalf("%s is promised to %s but taken by %s", given.member.UID, claim, p.taken[given.member.UID])
		}
		if _, ready := p.readyAt[given.member.UID]; ready {
			t.Fatalf("%s is promised and offered", given.member.UID)
		}
	}
	if len(p.taken) != len(p.promised) || p.ready.Len() != len(p.readyAt) {
		t.Fatalf("%d taken, %d promised; %d ready, %d found", len(p.taken), len(p.promised), p.ready.Len(), len(p.readyAt))
	}
	if len(p.waiters)+len(p.promised) != len(r.waiting) {
		t.Fatalf("%d wait and %d are promised a member, of %d claims", len(p.waiters), len(p.promised), len(r.waiting))
	}
	for i := 1; i < len(p.waiters); i++ {
		if compare(p.waiters[i-1], p.waiters[i]) >= 0 {
			t.Fatal("the queue is out of order")
		}
	}
}

func BenchmarkTakeAndWin(b *testing.B) {
	r := New(nil)
	for n := range 1000 {
		r.Update(python, memberOf(n), Ready)
	}
	for n := 0; b.Loop(); n++ {
		c := claimOf(n)
		offer := r.Take(python, c)
		r.Won(c.UID)
		r.Update(python, *offer.Member, Ready)
	}
}

func TestAMemberThatWasRejectedIsLookedAtAgainByTheNextClaim(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	r.Take(python, claimOf(0))
	r.Reject(claimOf(0).UID)
	if offer := r.TakeRejected(python, claimOf(0), map[types.UID]bool{memberOf(0).UID: true}); offer.Member != nil {
		t.Errorf("the claim that rejected the member is offered %+v", offer)
	}
	r.Leave(claimOf(0).UID)
	if offer := r.Take(python, claimOf(1)); offer.Member != nil || offer.Wait {
		t.Errorf("the next claim is offered %+v as if it had never been rejected", offer)
	}
	if offer := r.TakeRejected(python, claimOf(1), nil); offer.Member == nil || *offer.Member != memberOf(0) {
		t.Errorf("the next claim is offered %+v", offer)
	}
	if offer := r.TakeRejected(python, claimOf(2), nil); offer.Member != nil {
		t.Errorf("a second claim is offered %+v, which is promised", offer)
	}
	r.Won(claimOf(1).UID)
	if s := r.Standing(python); s != (Standing{}) {
		t.Errorf("the pool stands at %+v", s)
	}
}

func TestAMemberThatWasRejectedAndIsGoneIsForgotten(t *testing.T) {
	r := New(nil)
	r.Update(python, memberOf(0), Ready)
	r.Take(python, claimOf(0))
	r.Reject(claimOf(0).UID)
	r.Leave(claimOf(0).UID)
	r.Update(python, memberOf(0), Absent)
	if offer := r.TakeRejected(python, claimOf(1), nil); offer.Member != nil {
		t.Errorf("the claim is offered %+v", offer)
	}
	if len(r.pools) != 0 || len(r.waiting) != 0 {
		t.Errorf("the roster remembers %d pools and %d claims", len(r.pools), len(r.waiting))
	}
}
