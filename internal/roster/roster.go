// SPDX-License-Identifier: Apache-2.0

// Package roster matches the members of warm pools with the claims that wait for
// them. It is derived: everything in it comes from watch events and is forgotten
// with the process. It hands out hints, never rights: whoever is promised a member
// still has to win it from the API server.
package roster

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Member is a Sandbox of a warm pool.
type Member struct {
	Key types.NamespacedName
	UID types.UID
	// Template is the name of the SandboxTemplate it was made from.
	Template string
}

// Claim is a SandboxClaim that waits. Claims are served in the order of creation,
// then of first sight, then of UID.
type Claim struct {
	Key     types.NamespacedName
	UID     types.UID
	Created time.Time
}

// Offer is the roster's answer to a claim.
type Offer struct {
	// Member is promised to the claim if it is not nil.
	Member *Member
	// Wait is true if a member that is coming up will be the claim's. If there is
	// neither a member nor one to wait for, the claim should start cold at once.
	Wait bool
	// Wake are claims that were told to wait for a member and are now told otherwise.
	Wake []types.NamespacedName
}

// State is where a member is on its way into the pool.
type State int

// A member is absent from the roster, on its way to ready, or ready.
const (
	Absent State = iota
	ComingUp
	Ready
)

// Roster is safe for concurrent use.
type Roster struct {
	mu      sync.Mutex
	pools   map[types.NamespacedName]*pool
	waiting map[types.UID]waiter // by claim, those promised a member included
	seen    uint64
	begun   bool // a claim has asked: all that there was at the start is known
	free    []free
	// onlookers finds the claims that may take a member of whatever pool.
	onlookers func(Member) []types.UID
}

// New returns an empty roster. A claim may be served by several pools, and waits for one
// at a time: onlookers, unless nil, returns the claims that may take a member whichever
// pool they wait for. They are woken when the member is ready and promised to nobody.
func New(onlookers func(Member) []types.UID) *Roster {
	return &Roster{pools: map[types.NamespacedName]*pool{}, waiting: map[types.UID]waiter{}, onlookers: onlookers}
}

// Update records the state of a member of the pool and returns the claims to wake:
// the one that is promised the member, or those for which none is coming up any
// more.
func (r *Roster) Update(poolKey types.NamespacedName, m Member, state State) (woken []types.NamespacedName) {
	defer r.lock()(&woken)
	p := r.pool(poolKey)
	defer r.prune(poolKey, p)
	delete(p.declined, m.UID)
	if claim, ok := p.taken[m.UID]; ok {
		if state != Absent {
			p.changed(claim, state)
			return nil // whoever it is promised to will see
		}
		return append(p.withdraw(m.UID), p.unserved()...)
	}
	delete(p.comingUp, m.UID)
	p.aside = slices.DeleteFunc(p.aside, func(a Member) bool { return a.UID == m.UID })
	switch state {
	case Ready:
		if _, ok := p.readyAt[m.UID]; ok {
			return r.serve(p)
		}
		return r.offer(p, m, p.ready.PushBack)
	case ComingUp:
		p.unready(m.UID)
		p.comingUp[m.UID] = struct{}{}
		return nil
	default:
		p.unready(m.UID)
		return p.unserved()
	}
}

// Adopted records that a member of the pool has become a claim's. If it was promised to
// that claim this is Won, else the member is Absent. The watch may tell of an adoption
// before the claim itself has its answer: were the promise withdrawn, the claim would
// stand in the way of the others although it needs nothing any more.
func (r *Roster) Adopted(poolKey types.NamespacedName, m Member, claim types.UID) []types.NamespacedName {
	if r.won(claim, m.UID) {
		return nil
	}
	return r.Update(poolKey, m, Absent)
}

func (r *Roster) won(claim, member types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.waiting[claim]
	if !ok || r.pools[w.pool].promised[claim].member.UID != member {
		return false
	}
	r.settle(w)
	return true
}

// Enter records that a claim waits for a member of the pool, so that its rank is
// known before it is reconciled. A claim waits for one pool at a time. The claims to
// wake are returned: it may have come before some that waited.
func (r *Roster) Enter(poolKey types.NamespacedName, c Claim) (woken []types.NamespacedName) {
	defer r.lock()(&woken)
	p, wake := r.enter(poolKey, c)
	return append(wake, p.unserved()...)
}

// Stay is Enter for a claim that was told to start cold and cannot. It reports whether
// a member became ready for it in the meantime, so that it should take again.
func (r *Roster) Stay(poolKey types.NamespacedName, c Claim) (ready bool, woken []types.NamespacedName) {
	defer r.lock()(&woken)
	p, wake := r.enter(poolKey, c)
	if _, ok := p.promised[c.UID]; ok {
		return true, wake
	}
	return p.rank(r.waiting[c.UID]) < p.ready.Len(), append(wake, p.unserved()...)
}

// enter returns the pool, and the claims to wake because the claim left another.
func (r *Roster) enter(poolKey types.NamespacedName, c Claim) (*pool, []types.NamespacedName) {
	var wake []types.NamespacedName
	if old, ok := r.waiting[c.UID]; ok {
		if old.pool == poolKey {
			return r.pools[poolKey], nil
		}
		wake = r.leave(c.UID)
	}
	r.seen++
	w := waiter{Claim: c, pool: poolKey, seen: r.seen}
	r.waiting[c.UID] = w
	p := r.pool(poolKey)
	p.queue(w)
	return p, wake
}

// Take answers a claim that is ready to adopt. The same member is offered again
// until the claim is done with it. A claim that is told to start cold has left.
func (r *Roster) Take(poolKey types.NamespacedName, c Claim) (offer Offer) {
	defer r.lock()(&offer.Wake)
	r.begun = true
	p, wake := r.enter(poolKey, c)
	if given, ok := p.promised[c.UID]; ok {
		if given.since == Ready {
			p.changed(c.UID, Absent) // the claim looks at it now
		}
		return Offer{Member: &given.member, Wake: wake}
	}
	wake = append(wake, p.unserved()...)
	rank := p.rank(r.waiting[c.UID])
	switch ready := p.ready.Len(); {
	case rank < ready:
		m := p.promise(rank)
		return Offer{Member: &m, Wake: wake}
	case rank < ready+len(p.comingUp):
		p.told[c.UID] = struct{}{}
		return Offer{Wait: true, Wake: wake}
	default:
		return Offer{Wake: append(wake, r.leave(c.UID)...)}
	}
}

// Reject says that the member promised to the claim cannot be adopted. The member is set
// aside until it changes or a claim takes a second look, and the claim may take again.
// The claims to wake are returned: there is one member less for those that wait.
//
// A member that has changed since it was promised is not: the claim may have looked at it
// before that.
func (r *Roster) Reject(claim types.UID) (woken []types.NamespacedName) {
	defer r.lock()(&woken)
	p, rejected, wake := r.reject(claim)
	if rejected == nil {
		return wake
	}
	p.aside = append(p.aside, *rejected)
	return p.unserved()
}

// PassOn is Reject for a member that this claim cannot adopt, though others may: it goes
// to the oldest that has not given it back yet, and is set aside once all have.
func (r *Roster) PassOn(claim types.UID) (woken []types.NamespacedName) {
	defer r.lock()(&woken)
	p, rejected, wake := r.reject(claim)
	if rejected == nil {
		return wake
	}
	next := slices.IndexFunc(p.waiters, func(w waiter) bool { return !p.declined[rejected.UID].Has(w.UID) })
	if next < 0 {
		p.aside = append(p.aside, *rejected)
		return p.unserved()
	}
	nextKey := p.waiters[next].Key
	p.readyAt[rejected.UID] = p.ready.PushFront(*rejected)
	p.promise(next)
	return append(p.unserved(), nextKey)
}

// reject takes the member back that was promised to the claim, which waits again at its
// old rank. If it has changed since it was promised it is as good as any again, and the
// claims to wake are returned in its stead.
func (r *Roster) reject(claim types.UID) (*pool, *Member, []types.NamespacedName) {
	w, ok := r.waiting[claim]
	if !ok {
		return nil, nil, nil
	}
	p := r.pools[w.pool]
	given, ok := p.promised[claim]
	if !ok {
		return nil, nil, nil
	}
	m := given.member
	p.withdraw(m.UID)
	if given.since != Absent {
		wake := r.restore(p, m, given.since)
		return p, nil, append(wake, p.unserved()...)
	}
	if p.declined[m.UID] == nil {
		p.declined[m.UID] = sets.New[types.UID]()
	}
	p.declined[m.UID].Insert(claim)
	return p, &m, nil
}

// TakeRejected promises a claim that Take gave no member one that was set aside, if there
// is one that the claim has not looked at. What made a member unfit may have passed
// without a change of the member itself: its pod is ready again, or its template is what
// it was. Claims to wake are returned as by Take.
func (r *Roster) TakeRejected(poolKey types.NamespacedName, c Claim, looked map[types.UID]bool) (offer Offer) {
	defer r.lock()(&offer.Wake)
	known, ok := r.pools[poolKey]
	if !ok {
		return Offer{}
	}
	at := slices.IndexFunc(known.aside, func(m Member) bool { return !looked[m.UID] })
	if at < 0 {
		return Offer{}
	}
	p, wake := r.enter(poolKey, c)
	if given, ok := p.promised[c.UID]; ok {
		return Offer{Member: &given.member, Wake: wake}
	}
	m := p.aside[at]
	p.aside = slices.Delete(p.aside, at, at+1)
	p.readyAt[m.UID] = p.ready.PushFront(m)
	p.promise(p.rank(r.waiting[c.UID]))
	return Offer{Member: &m, Wake: wake}
}

// Recheck says that something about a member changed of which the member itself does
// not tell, such as its pod. One that was set aside is as ready as any again; whoever
// is promised the member looks once more. The claims to wake are returned.
func (r *Roster) Recheck(member types.UID) (woken []types.NamespacedName) {
	defer r.lock()(&woken)
	for _, p := range r.pools {
		delete(p.declined, member)
		if claim, ok := p.taken[member]; ok {
			if p.promised[claim].since == Absent {
				p.changed(claim, Ready)
			}
			return []types.NamespacedName{p.promised[claim].claim.Key}
		}
		if at := slices.IndexFunc(p.aside, func(m Member) bool { return m.UID == member }); at >= 0 {
			m := p.aside[at]
			p.aside = slices.Delete(p.aside, at, at+1)
			return r.offer(p, m, p.ready.PushBack)
		}
	}
	return nil
}

// Won says that the claim adopted the member it was promised.
func (r *Roster) Won(claim types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, ok := r.waiting[claim]; ok {
		r.settle(w)
	}
}

// settle takes a claim off the roster together with the member it was promised.
func (r *Roster) settle(w waiter) {
	p := r.pools[w.pool]
	defer r.prune(w.pool, p)
	if given, ok := p.promised[w.UID]; ok {
		delete(p.taken, given.member.UID)
		delete(p.promised, w.UID)
		delete(p.declined, given.member.UID)
	}
	r.leave(w.UID)
}

// Leave says that the claim waits no more: it is bound, gone, failed or in backoff.
// A member it was promised and did not adopt goes to the next; the claims to wake
// are returned.
func (r *Roster) Leave(claim types.UID) (woken []types.NamespacedName) {
	defer r.lock()(&woken)
	return r.leave(claim)
}

// Gone is Leave for a claim that does not exist any more.
func (r *Roster) Gone(claim types.UID) (woken []types.NamespacedName) {
	defer r.lock()(&woken)
	for _, p := range r.pools {
		for _, claims := range p.declined {
			claims.Delete(claim)
		}
	}
	return r.leave(claim)
}

func (r *Roster) leave(claim types.UID) []types.NamespacedName {
	w, ok := r.waiting[claim]
	if !ok {
		return nil
	}
	delete(r.waiting, claim)
	p := r.pools[w.pool]
	defer r.prune(w.pool, p)
	given, ok := p.promised[claim]
	if !ok {
		if at, found := slices.BinarySearchFunc(p.waiters, w, compare); found {
			p.waiters = slices.Delete(p.waiters, at, at+1)
		}
		delete(p.told, claim)
		// Members that were read at the start are promised to nobody yet. One of them is
		// now another's who has asked already, and will not ask again.
		return r.serve(p)
	}
	delete(p.promised, claim)
	delete(p.taken, given.member.UID)
	return r.restore(p, given.member, given.since)
}

// restore gives a member back that was promised, as what it has become since.
func (r *Roster) restore(p *pool, m Member, since State) []types.NamespacedName {
	if since == ComingUp {
		p.comingUp[m.UID] = struct{}{}
		return p.unserved()
	}
	return r.offer(p, m, p.ready.PushFront)
}

func (r *Roster) pool(key types.NamespacedName) *pool {
	p, ok := r.pools[key]
	if !ok {
		p = &pool{
			key:      key,
			ready:    list.New(),
			readyAt:  map[types.UID]*list.Element{},
			comingUp: map[types.UID]struct{}{},
			promised: map[types.UID]promise{},
			taken:    map[types.UID]types.UID{},
			told:     map[types.UID]struct{}{},
			declined: map[types.UID]sets.Set[types.UID]{},
		}
		r.pools[key] = p
	}
	return p
}

// prune forgets a pool nothing is known of.
func (r *Roster) prune(key types.NamespacedName, p *pool) {
	if p.ready.Len() == 0 && len(p.comingUp) == 0 && len(p.promised) == 0 && len(p.waiters) == 0 && len(p.aside) == 0 {
		delete(r.pools, key)
	}
}
