// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"cmp"
	"container/list"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

type pool struct {
	key      types.NamespacedName
	ready    *list.List // of Member, in the order they became ready
	readyAt  map[types.UID]*list.Element
	comingUp map[types.UID]struct{}
	promised map[types.UID]promise // by claim
	taken    map[types.UID]types.UID
	aside    []Member                          // rejected, and not changed since
	declined map[types.UID]sets.Set[types.UID] // by member, the claims that could not adopt it since it changed
	waiters  []waiter                          // in the order they are served, without those promised a member
	told     map[types.UID]struct{}            // waiters that were told that a member is coming up for them
}

type promise struct {
	claim  waiter
	member Member
	// since is what has become of the member since it was promised, or Absent if nothing.
	since State
}

type waiter struct {
	Claim
	pool types.NamespacedName
	seen uint64
}

// promise gives the member that has been ready longest to the waiter of that rank.
func (p *pool) promise(rank int) Member {
	w := p.waiters[rank]
	m := p.ready.Remove(p.ready.Front()).(Member)
	delete(p.readyAt, m.UID)
	p.waiters = slices.Delete(p.waiters, rank, rank+1)
	delete(p.told, w.UID)
	p.promised[w.UID] = promise{claim: w, member: m}
	p.taken[m.UID] = w.UID
	return m
}

// serve promises ready members to the oldest waiters and returns those to wake. Not while
// members and claims are still being read at the start, in no order: every claim asks
// after that, and is answered by its rank.
func (r *Roster) serve(p *pool) []types.NamespacedName {
	if !r.begun {
		return nil
	}
	var wake []types.NamespacedName
	for p.ready.Len() > 0 && len(p.waiters) > 0 {
		wake = append(wake, p.waiters[0].Key)
		p.promise(0)
	}
	return wake
}

// unserved returns the waiters that were told to wait and for which no member is left.
// They are told once.
func (p *pool) unserved() []types.NamespacedName {
	var wake []types.NamespacedName
	for _, w := range p.waiters[min(p.ready.Len()+len(p.comingUp), len(p.waiters)):] {
		if _, ok := p.told[w.UID]; ok {
			delete(p.told, w.UID)
			wake = append(wake, w.Key)
		}
	}
	return wake
}

// rank is how many waiters are served before w.
func (p *pool) rank(w waiter) int {
	rank, _ := slices.BinarySearchFunc(p.waiters, w, compare)
	return rank
}

// withdraw takes a member back from the claim it is promised to, which waits again
// at its old rank, and returns that claim.
func (p *pool) withdraw(member types.UID) []types.NamespacedName {
	claim := p.taken[member]
	w := p.promised[claim].claim
	delete(p.taken, member)
	delete(p.promised, claim)
	p.queue(w)
	return []types.NamespacedName{w.Key}
}

// changed notes what has become of the member that is promised to the claim.
func (p *pool) changed(claim types.UID, state State) {
	given := p.promised[claim]
	given.since = state
	p.promised[claim] = given
}

// queue puts a claim among those that are promised nothing.
func (p *pool) queue(w waiter) {
	at, _ := slices.BinarySearchFunc(p.waiters, w, compare)
	p.waiters = slices.Insert(p.waiters, at, w)
}

func (p *pool) unready(member types.UID) bool {
	e, ok := p.readyAt[member]
	if ok {
		p.ready.Remove(e)
		delete(p.readyAt, member)
	}
	return ok
}

func compare(a, b waiter) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.seen, b.seen), strings.Compare(string(a.UID), string(b.UID)))
}
