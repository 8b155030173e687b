// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxEntries and maxAge bound the overlay: past either, writes are refused with
	// ErrLagging until the store has caught up.
	maxEntries = 20_000
	maxAge     = time.Minute
	// forgetAfter is the age at which an entry cannot be explained by lag any more,
	// and at which a create that never showed up will not land: the server ends
	// every request long before.
	forgetAfter = 5 * time.Minute
)

// settle finds out what became of the undecided writes to key, as far as one live
// read can tell.
func (v *View[T]) settle(ctx context.Context, key types.NamespacedName) error {
	e := v.entry(key)
	if e == nil || len(e.unknown) == 0 {
		return nil
	}
	if item, ok := v.store.Get(key); ok {
		stored := item.(T)
		uid, rv := stored.GetUID(), version(stored.GetResourceVersion())
		// What the store shows may be older than the attempt; only a later version
		// of its base, or its own creation, proves anything.
		if settledByStore(e, uid, rv) {
			v.keep(stored)
			return nil
		}
	}
	_, _, err := v.Live(ctx, key)
	return err
}

func settledByStore[T client.Object](e *entry[T], uid types.UID, rv uint64) bool {
	return rv >= e.rv && !slices.ContainsFunc(e.unknown, func(a attempt[T]) bool {
		return a.Verb == VerbCreate || uid != a.uid || rv <= a.rv
	})
}

// Sweep drops the entries the store has caught up with. The manager calls it
// every second; the simulator calls it as a step of its own.
func (v *View[T]) Sweep(ctx context.Context) error {
	now := v.clock.Now()
	s := v.store.Version()
	v.mu.Lock()
	backwards := s < v.highest
	v.highest = s
	var lost []types.NamespacedName
	for key, e := range v.overlay.entries {
		item, ok := v.store.Get(key)
		switch {
		case backwards, now.Sub(e.since) > forgetAfter:
			lost = append(lost, key)
		case len(e.unknown) > 0:
		case !ok && s >= e.rv, ok && s >= e.rv && e.shownBy(item.(T)):
			v.overlay.set(key, &entry[T]{})
		}
	}
	for _, key := range lost {
		v.overlay.set(key, &entry[T]{})
	}
	v.mu.Unlock()
	// The store went back in time (etcd was restored) or an entry outlived every
	// lag: what the overlay says is not worth more than the server's word.
	slices.SortFunc(lost, compareKeys)
	for _, key := range lost {
		if _, _, err := v.Live(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// shownBy reports whether the stored object says all that the entry says.
func (e *entry[T]) shownBy(stored T) bool {
	if stored.GetUID() != e.uid {
		return version(stored.GetResourceVersion()) > e.rv
	}
	if e.gone || version(stored.GetResourceVersion()) < e.rv {
		return false
	}
	return !e.dying || stored.GetDeletionTimestamp() != nil
}

// admit refuses writes while the informer is too far behind to keep their
// replies.
func (v *View[T]) admit() error {
	if lag := v.Lag(); lag.Entries > maxEntries || lag.Oldest > maxAge {
		return ErrLagging
	}
	return nil
}

// Lag says how far the informer is behind this process's own writes.
type Lag struct {
	// Entries is how many keys the overlay holds.
	Entries int
	// Oldest is the age of the oldest reply the store has not caught up with. A
	// create that is undecided waits for its writer, not for the store, and does
	// not count.
	Oldest time.Duration
}

// Lag returns the present lag. Beyond one minute or 20,000 entries the process is
// not ready.
func (v *View[T]) Lag() Lag {
	now := v.clock.Now()
	s := v.store.Version()
	v.mu.Lock()
	defer v.mu.Unlock()
	lag := Lag{Entries: len(v.overlay.entries)}
	for _, e := range v.overlay.entries {
		if s < e.rv {
			lag.Oldest = max(lag.Oldest, now.Sub(e.since))
		}
	}
	return lag
}

// Behind reports whether the lag is beyond what writes are admitted at.
func (l Lag) Behind() bool { return l.Entries > maxEntries || l.Oldest > maxAge }

// compareKeys orders keys by namespace, then name.
func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
