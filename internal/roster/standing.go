// SPDX-License-Identifier: Apache-2.0

package roster

import (
	"k8s.io/apimachinery/pkg/types"
)

// Standing is what a pool looks like from here.
type Standing struct {
	// Ready members are promised to nobody.
	Ready int
	// ComingUp members are not ready yet.
	ComingUp int
	// Waiting claims are promised nothing.
	Waiting int
}

// Standing returns the pool's present standing.
func (r *Roster) Standing(poolKey types.NamespacedName) Standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.pools[poolKey]
	if !ok {
		return Standing{}
	}
	return Standing{Ready: p.ready.Len(), ComingUp: len(p.comingUp), Waiting: len(p.waiters)}
}

// Free returns how many ready members the pool has that no other claim is to get.
func (r *Roster) Free(poolKey types.NamespacedName, claim types.UID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.pools[poolKey]
	if !ok {
		return 0
	}
	free := p.ready.Len() - len(p.waiters)
	if w, waits := r.waiting[claim]; waits && w.pool == poolKey {
		free++ // it does not wait for itself, or has a member already
	}
	return max(free, 0)
}
