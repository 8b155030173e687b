// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxEntries and maxAge bound the overlay: past either, writes are refused with
	// ErrLagging until a sweep finds that the store has caught up.
	maxEntries = 20_000
	maxAge     = time.Minute
	// forgetAfter is the age at which an entry cannot be explained by lag any more,
	// and at which a write that never showed up will not land: the server ends
	// every request long before.
	forgetAfter = 5 * time.Minute
)

// settle finds out what became of the undecided writes to key, as far as the store
// or one live read can tell.
func (v *View[T]) settle(ctx context.Context, key types.NamespacedName) error {
	if stored, ok := v.stored(key); ok {
		saw := seen(stored, 0)
		v.change(key, func(e *entry[T]) {
			e.settle(func(a attempt[T]) bool { return a.settledBy(saw) })
		})
	}
	if e, _ := v.entry(key); e == nil || len(e.unknown) == 0 {
		return nil
	}
	_, _, err := v.Live(ctx, key)
	return err
}

// Sweep drops the entries the store has caught up with. The manager calls it
// every second; the simulator calls it as a step of its own. It returns the error of
// a live read it needed; the next sweep tries again.
func (v *View[T]) Sweep(ctx context.Context) error {
	keys, entries, s := v.snapshot()
	now := v.clock.Now()
	done := make([]bool, len(keys))
	var gone, overdue, again []int
	lagging := false
	for i, e := range entries {
		stored, ok := v.stored(keys[i])
		switch {
		case e.explainedBy(s, stored, ok):
			done[i] = true
			if e.outlived(stored, ok) {
				gone = append(gone, i)
			}
			if len(e.untold) > 0 || slices.ContainsFunc(e.unknown, func(a attempt[T]) bool { return a.status }) {
				again = append(again, i)
			}
		case e.overdue(now, s):
			overdue = append(overdue, i)
		}
		lagging = lagging || e.lag(now, s) > maxAge
	}
	v.drop(keys, entries, done)
	byKey := func(a, b int) int { return compareKeys(keys[a], keys[b]) }
	slices.SortFunc(gone, byKey)
	for _, i := range gone {
		v.tell(entries[i])
	}
	slices.SortFunc(again, byKey)
	for _, i := range again {
		v.tellToLook(keys[i])
	}
	v.mu.Lock()
	v.lagging = lagging
	v.mu.Unlock()

	slices.SortFunc(overdue, byKey)
	for _, i := range overdue {
		if err := v.recheck(ctx, keys[i], entries[i]); err != nil {
			return err
		}
	}
	return v.repair(ctx)
}

// snapshot returns the overlay's entries, and the store's version after they were
// read. If the store went back in time (etcd was restored), versions that were kept
// cannot be compared any more: the overlay is emptied, to be read again.
func (v *View[T]) snapshot() ([]types.NamespacedName, []*entry[T], uint64) {
	v.mu.Lock()
	highest := v.highest
	keys := make([]types.NamespacedName, 0, len(v.overlay.entries))
	entries := make([]*entry[T], 0, len(v.overlay.entries))
	for key, e := range v.overlay.entries {
		keys, entries = append(keys, key), append(entries, e)
	}
	v.mu.Unlock()
	s := v.store.Version()
	v.mu.Lock()
	defer v.mu.Unlock()
	if s >= highest {
		v.highest = max(v.highest, s)
		return keys, entries, s
	}
	v.highest = s
	for key := range v.overlay.entries {
		v.reread = append(v.reread, key)
	}
	slices.SortFunc(v.reread, compareKeys)
	v.overlay.clear()
	return nil, nil, s
}

// drop removes the entries that are done and have not been replaced since.
func (v *View[T]) drop(keys []types.NamespacedName, entries []*entry[T], done []bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, key := range keys {
		if done[i] && v.overlay.entries[key] == entries[i] {
			v.overlay.remove(key, entries[i])
		}
	}
}

// explainedBy reports whether the store, at version s, shows all that the entry
// says.
func (e *entry[T]) explainedBy(s uint64, stored T, inStore bool) bool {
	var saw sight
	if inStore {
		saw = seen(stored, 0)
	}
	for _, a := range e.unknown {
		if !inStore || !a.settledBy(saw) {
			return false
		}
	}
	switch {
	case !e.known():
		return true
	case s < e.rv:
		return false
	case !inStore || saw.uid != e.uid: // past its end
		return true
	case e.gone || saw.rv < e.rv:
		return false
	default:
		return e.dying == nil || saw.terminating
	}
}

// outlived reports whether the store, which explains the entry, is past the end of the
// object that the entry knows.
func (e *entry[T]) outlived(stored T, inStore bool) bool {
	return e.known() && (!inStore || stored.GetUID() != e.uid)
}

// overdue reports whether the entry is older than any lag: the store has moved, and
// still does not show what the entry says.
func (e *entry[T]) overdue(now time.Time, s uint64) bool {
	for _, a := range e.unknown {
		if now.Sub(a.at) > forgetAfter {
			return true
		}
	}
	return e.known() && now.Sub(e.checked) > forgetAfter && (s >= e.rv || s != e.seen)
}

// recheck replaces an overdue entry by what the server says. Reads see the old
// entry until then.
func (v *View[T]) recheck(ctx context.Context, key types.NamespacedName, e *entry[T]) error {
	began := v.began()
	obj, err := v.api.Get(ctx, key)
	if err != nil && !absent(err) {
		return fmt.Errorf("read %s %s: %w", v.name, key, err)
	}
	now, s := v.clock.Now(), v.store.Version()
	next := &entry[T]{since: now, checked: now, seen: s}
	var settled func(attempt[T]) bool
	if err != nil {
		settled = func(a attempt[T]) bool { return a.settledByAbsence(began) }
		if e.known() {
			next.uid, next.obj = e.uid, e.obj
			next.end(e.uid, e.rv)
		}
	} else {
		obj = v.transform(obj)
		saw := seen(obj, began)
		settled = func(a attempt[T]) bool { return a.settledBy(saw) }
		next.show(obj)
		next.overtakes(s)
	}
	if s < e.rv {
		next.since = e.since
	}
	next.unknown = slices.Clone(e.unknown)
	next.settle(func(a attempt[T]) bool { return settled(a) || now.Sub(a.at) > forgetAfter })
	if !v.swap(key, e, next) {
		return nil
	}
	if next.uid != e.uid {
		v.tell(e)
	}
	if next.settledStatus || len(e.untold) > 0 {
		v.tellToLook(key)
	}
	return nil
}

// swap replaces the entry under key if that is still the old one. Else there is news, and
// the next sweep looks again.
func (v *View[T]) swap(key types.NamespacedName, old, next *entry[T]) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.overlay.entries[key] != old {
		return false
	}
	v.overlay.set(key, next)
	return true
}

// repair reads again what the overlay held when the store went back in time.
func (v *View[T]) repair(ctx context.Context) error {
	for {
		v.mu.Lock()
		if len(v.reread) == 0 {
			v.mu.Unlock()
			return nil
		}
		key := v.reread[0]
		v.mu.Unlock()
		if _, _, err := v.Live(ctx, key); err != nil {
			return err
		}
		v.tellToLook(key)
		v.mu.Lock()
		if len(v.reread) > 0 && v.reread[0] == key {
			v.reread = v.reread[1:]
		}
		v.mu.Unlock()
	}
}

// admit refuses writes while the informer is too far behind to keep their
// replies.
func (v *View[T]) admit() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lagging || len(v.overlay.entries) > maxEntries {
		return ErrLagging
	}
	return nil
}

// Lag says how far the informer is behind this process's own writes.
type Lag struct {
	// Entries is how many keys the overlay holds.
	Entries int
	// Oldest is the age of the oldest reply the store has not caught up with. A
	// write that is undecided waits for its writer, not for the store, and does not
	// count.
	Oldest time.Duration
}

// Lag returns the present lag. It looks at every entry: it is for metrics and
// readiness, not for every write.
func (v *View[T]) Lag() Lag {
	now, s := v.clock.Now(), v.store.Version()
	v.mu.Lock()
	defer v.mu.Unlock()
	lag := Lag{Entries: len(v.overlay.entries)}
	for _, e := range v.overlay.entries {
		lag.Oldest = max(lag.Oldest, e.lag(now, s))
	}
	return lag
}

// lag is for how long the store, at version s, has been behind the entry.
func (e *entry[T]) lag(now time.Time, s uint64) time.Duration {
	if s >= e.rv {
		return 0
	}
	return now.Sub(e.since)
}

// Behind reports whether the lag is beyond what writes are admitted at: one minute or
// 20,000 entries. The process is not ready then.
func (l Lag) Behind() bool { return l.Entries > maxEntries || l.Oldest > maxAge }

// compareKeys orders keys by namespace, then name.
func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
