// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"container/list"

	"k8s.io/apimachinery/pkg/types"
)

// free is a member that became ready while no claim waited for one of its pool.
type free struct {
	member Member
	pool   types.NamespacedName
}

// lock locks the roster. What it returns unlocks it, and adds to the claims to wake those
// that look on.
func (r *Roster) lock() func(wake *[]types.NamespacedName) {
	r.mu.Lock()
	return func(wake *[]types.NamespacedName) {
		found := r.free
		r.free = nil
		r.mu.Unlock()
		if r.onlookers == nil {
			return
		}
		for _, f := range found {
			*wake = append(*wake, r.waitElsewhere(f.pool, r.onlookers(f.member))...)
		}
	}
}

// waitElsewhere returns those of the claims that wait for another pool and are promised
// nothing. Those that do not wait have no use for a member, or have failed and try again
// later.
func (r *Roster) waitElsewhere(poolKey types.NamespacedName, claims []types.UID) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	var wake []types.NamespacedName
	for _, claim := range claims {
		w, waits := r.waiting[claim]
		if !waits || w.pool == poolKey {
			continue
		}
		if _, promised := r.pools[w.pool].promised[claim]; !promised {
			wake = append(wake, w.Key)
		}
	}
	return wake
}

// offer makes a member ready, before the others or after them, and returns the claims it
// is promised to. If there is none it is free for those that look on.
func (r *Roster) offer(p *pool, m Member, push func(any) *list.Element) []types.NamespacedName {
	p.readyAt[m.UID] = push(m)
	wake := r.serve(p)
	if r.begun && p.ready.Len() > 0 {
		r.free = append(r.free, free{member: m, pool: p.key})
	}
	return wake
}
