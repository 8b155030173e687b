// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/mergepatch"
)

// Options are what a View is made of. Every field but Indexes and Transform is
// required.
type Options[T client.Object] struct {
	// Name is the resource in errors and metrics, such as "sandboxes".
	Name  string
	API   API[T]
	Store Store
	Clock clock.PassiveClock
	// Indexes must be those of the store.
	Indexes map[string]Index[T]
	// Transform is what the informer does to objects before it stores them. It is
	// done to kept replies too and may modify its argument.
	Transform func(T) T
	// Vanished, if set, is told when a sweep, or a reply about another object of the
	// name, shows that an object this process knew of is gone, as it was last known. No
	// event may tell of that: while a watch is broken an object can come and go, or
	// change hands and go. It may also be told of an object whose events did come.
	Vanished func(last T)
	// LookAgain, if set, is told of an object, as it is now, of which no event may tell
	// what there is to tell. Either it turned out what came of a write to its status whose
	// outcome was unknown: that may land long after its writer gave it up, and who takes
	// changes of a status for its own writer's sleeps through them. Or the informer, which
	// lists again after a broken watch, has skipped a version that this view has shown: the
	// event compares what was before with what came after, and somebody may have acted on
	// what was in between.
	LookAgain func(now T)
}

// View is the consistent view of one kind. It may be used once the informer's store
// has synced.
type View[T client.Object] struct {
	name      string
	api       API[T]
	store     Store
	clock     clock.PassiveClock
	indexes   map[string]Index[T]
	transform func(T) T
	vanished  func(T)
	lookAgain func(T)
	merger    mergepatch.Merger

	mu       sync.Mutex
	overlay  overlay[T]
	attempts uint64                 // how many writes have ever become undecided
	highest  uint64                 // store version at the last sweep
	lagging  bool                   // the last sweep found an entry older than maxAge
	reread   []types.NamespacedName // what the overlay held when the store went back in time
}

var _ Kind[client.Object] = (*View[client.Object])(nil)

// New returns a view with an empty overlay.
func New[T client.Object](o Options[T]) *View[T] {
	v := &View[T]{
		name: o.Name, api: o.API, store: o.Store, clock: o.Clock, indexes: o.Indexes, transform: o.Transform,
		vanished: o.Vanished, lookAgain: o.LookAgain, overlay: newOverlay(o.Indexes),
	}
	if v.vanished == nil {
		v.vanished = func(T) {}
	}
	if v.lookAgain == nil {
		v.lookAgain = func(T) {}
	}
	if v.transform == nil {
		v.transform = func(obj T) T { return obj }
	}
	return v
}

// Get implements Kind.
func (v *View[T]) Get(ctx context.Context, key types.NamespacedName) (T, bool, error) {
	e, _ := v.entry(key)
	if e != nil && len(e.unknown) > 0 {
		if err := v.settle(ctx, key); err != nil {
			var none T
			return none, false, err
		}
		e, _ = v.entry(key)
	}
	obj, ok := v.joined(e, key)
	return obj, ok, nil
}

// By implements Kind.
func (v *View[T]) By(ctx context.Context, index, value string) ([]T, error) {
	v.mustHave(index)
	asked := sets.New[types.NamespacedName]()
	for {
		found, doubtful := v.list(indexValue{index, value})
		doubtful = slices.DeleteFunc(doubtful, asked.Has)
		if len(doubtful) == 0 {
			return found, nil
		}
		for _, key := range doubtful {
			if err := v.settle(ctx, key); err != nil {
				return nil, err
			}
			asked.Insert(key)
		}
	}
}

// Peek implements Kind. It makes no request: an undecided write shows as the object
// was before it.
func (v *View[T]) Peek(index, value string) []T {
	v.mustHave(index)
	found, _ := v.list(indexValue{index, value})
	return found
}

// list returns what By does, with the undecided writes left aside, and the keys of those
// writes, in a stable order. A write that may have put an object under at, or have taken
// it from there, is one of them, and so is any to a hit: a delete can land on a later
// version than it was decided on, and a create shows that what had the name is gone.
func (v *View[T]) list(at indexValue) (found []T, doubtful []types.NamespacedName) {
	// The overlay's keys come before the store's hits, for the same reason as the
	// entry before the item.
	written, removals := v.written(at)
	hits := v.store.ByIndex(at.index, at.value)
	return v.joinedHits(at, written, removals, hits)
}

// joinedHits is list once the store's hits are read, and before them the keys that were
// written.
func (v *View[T]) joinedHits(at indexValue, written []types.NamespacedName, removals uint64, hits []any) (found []T, doubtful []types.NamespacedName) {
	entries := v.overlaid(written, removals, hits)
	found = make([]T, 0, len(hits)+len(written))
	for _, item := range hits {
		obj := item.(T)
		if len(entries) > 0 {
			if _, overlaid := entries[client.ObjectKeyFromObject(obj)]; overlaid {
				continue
			}
		}
		found = append(found, obj)
	}
	s := v.store.Version()
	for key, e := range entries {
		if e != nil && len(e.unknown) > 0 {
			doubtful = append(doubtful, key)
		}
		stored, ok := v.stored(key)
		if obj, ok := join(e, s, stored, ok); ok && slices.Contains(v.indexes[at.index](obj), at.value) {
			found = append(found, obj)
		}
	}
	slices.SortFunc(found, byAge[T])
	slices.SortFunc(doubtful, compareKeys)
	return found, doubtful
}

// undecided returns the keys under at with undecided writes, in a stable order.
func (v *View[T]) undecided(at indexValue) []types.NamespacedName {
	v.mustHave(at.index)
	v.mu.Lock()
	defer v.mu.Unlock()
	var keys []types.NamespacedName
	for key := range v.overlay.byIndex[at] {
		if len(v.overlay.entries[key].unknown) > 0 {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// mustHave panics if there is no such index: a fault of the program.
func (v *View[T]) mustHave(index string) {
	if _, ok := v.indexes[index]; !ok {
		panic(fmt.Sprintf("%s has no index %q", v.name, index))
	}
}

// written returns the keys whose entries may matter to at, and the overlay's count
// of removals.
func (v *View[T]) written(at indexValue) ([]types.NamespacedName, uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.overlay.byIndex[at].UnsortedList(), v.overlay.removals
}

// overlaid returns the entries of the written keys and of those hits that must be
// joined with one. The hits were read from the store when the overlay had made the
// given count of removals, or later: a hit without an entry now had none then, unless
// one was removed since.
func (v *View[T]) overlaid(written []types.NamespacedName, removals uint64, hits []any) map[types.NamespacedName]*entry[T] {
	entries := make(map[types.NamespacedName]*entry[T], len(written))
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, key := range written {
		entries[key] = v.overlay.entries[key]
	}
	all := v.overlay.removals != removals
	if !all && len(v.overlay.entries) == 0 {
		return entries
	}
	for _, item := range hits {
		key := client.ObjectKeyFromObject(item.(T))
		if e := v.overlay.entries[key]; all || e != nil {
			entries[key] = e
		}
	}
	return entries
}

// byAge orders objects by creation time, then by name.
func byAge[T client.Object](a, b T) int {
	if byTime := a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time); byTime != 0 {
		return byTime
	}
	if byName := strings.Compare(a.GetName(), b.GetName()); byName != 0 {
		return byName
	}
	return strings.Compare(a.GetNamespace(), b.GetNamespace())
}

// Undecided implements Kind.
func (v *View[T]) Undecided(index, value string) []Attempt[T] {
	var found []Attempt[T]
	for _, key := range v.undecided(indexValue{index, value}) {
		e, _ := v.entry(key)
		if e == nil {
			continue
		}
		for _, a := range e.unknown {
			if slices.Contains(a.values(v.indexes[index]), value) {
				found = append(found, a.Attempt)
			}
		}
	}
	return found
}

// InDoubt implements Kind.
func (v *View[T]) InDoubt(key types.NamespacedName) bool {
	e, _ := v.entry(key)
	return e != nil && len(e.unknown) > 0
}

// Live implements Kind.
func (v *View[T]) Live(ctx context.Context, key types.NamespacedName) (T, bool, error) {
	var none T
	// Only what is known before the read starts is disproved when it finds nothing:
	// an object that the store shows later may have been created since.
	e, began := v.entry(key)
	before, known := v.joined(e, key)
	obj, err := v.api.Get(ctx, key)
	if absent(err) {
		v.change(key, func(e *entry[T]) {
			e.settle(func(a attempt[T]) bool { return a.settledByAbsence(began) })
			if known {
				e.end(before.GetUID(), version(before.GetResourceVersion()))
			}
		})
		return none, false, nil
	}
	if err != nil {
		return none, false, fmt.Errorf("read %s %s: %w", v.name, key, err)
	}
	v.keep(obj, began)
	// A write of this process may have been answered while the read was under way.
	shown, ok := v.read(key)
	return shown, ok, nil
}

// entry returns the entry under key, nil if there is none, and the number of
// attempts so far, which tells what a request that starts now can settle.
func (v *View[T]) entry(key types.NamespacedName) (*entry[T], uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.overlay.entries[key], v.attempts
}

// began returns the number of attempts so far.
func (v *View[T]) began() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.attempts
}

// read returns the object under key.
func (v *View[T]) read(key types.NamespacedName) (T, bool) {
	e, _ := v.entry(key)
	return v.joined(e, key)
}

// joined joins an entry that was read before with the store. The order of the three
// reads, entry, version, item, is what makes it correct; see the package comment.
func (v *View[T]) joined(e *entry[T], key types.NamespacedName) (T, bool) {
	s := v.store.Version()
	stored, ok := v.stored(key)
	return join(e, s, stored, ok)
}

func (v *View[T]) stored(key types.NamespacedName) (T, bool) {
	item, ok := v.store.Get(key)
	if !ok {
		var none T
		return none, false
	}
	return item.(T), true
}

// join decides between what the process knows and what the store, at version s,
// shows.
func join[T client.Object](e *entry[T], s uint64, stored T, inStore bool) (T, bool) {
	var none T
	switch {
	case e == nil || !e.known():
		return stored, inStore
	case inStore && stored.GetUID() == e.uid && e.gone:
		return none, false
	case inStore && version(stored.GetResourceVersion()) >= e.rv:
		return e.terminating(stored), true
	case e.gone: // the store shows nothing, or what had the name before
		return none, false
	case !inStore && s >= e.rv: // the store has seen it come and go
		return none, false
	default:
		return e.terminating(e.obj), true
	}
}

// change replaces the entry under key by what edit makes of a copy of it. The store
// is never read under the lock: it may be slow, and the simulator stops there.
func (v *View[T]) change(key types.NamespacedName, edit func(*entry[T])) {
	now, s := v.clock.Now(), v.store.Version()
	old, next := v.replace(key, edit, now, s)
	if old == nil {
		return
	}
	if next.uid != old.uid {
		v.tell(old)
	}
	if next.settledStatus {
		v.tellToLook(key)
	}
}

// replace does what change says, and returns the old entry and the next.
func (v *View[T]) replace(key types.NamespacedName, edit func(*entry[T]), now time.Time, s uint64) (old, next *entry[T]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old, next = v.overlay.entries[key], &entry[T]{}
	if old != nil {
		*next = *old
		next.unknown, next.settledStatus = slices.Clone(old.unknown), false
	}
	edit(next)
	if old == nil || s >= old.rv { // the store was not behind until now
		next.since = now
	}
	if old == nil || next.uid != old.uid || next.rv != old.rv {
		next.checked, next.seen = now, s
		next.overtakes(s)
	}
	v.overlay.set(key, next)
	return old, next
}

// keep records an object from a reply to a request that was sent when the view had
// counted began attempts, and returns it as the informer would store it.
func (v *View[T]) keep(obj T, began uint64) T {
	obj = v.transform(obj)
	s := v.store.Version()
	v.change(client.ObjectKeyFromObject(obj), func(e *entry[T]) {
		saw := seen(obj, began)
		e.settle(func(a attempt[T]) bool { return a.settledBy(saw) })
		if !e.known() && s >= saw.rv {
			return // the store is already there
		}
		e.show(obj)
	})
	return obj
}

// keepDying records that a delete of obj was accepted.
func (v *View[T]) keepDying(obj T) {
	uid := obj.GetUID()
	at := metav1.NewTime(v.clock.Now()).Rfc3339Copy()
	v.change(client.ObjectKeyFromObject(obj), func(e *entry[T]) {
		e.settle(func(a attempt[T]) bool { return a.Verb == VerbDelete && a.uid == uid })
		e.show(obj)
		if e.uid == uid && !e.gone && e.dying == nil {
			e.dying = &at
		}
	})
}

// keepGone records that the object an attempt was made on does not exist.
func (v *View[T]) keepGone(key types.NamespacedName, a attempt[T]) {
	v.change(key, func(e *entry[T]) {
		e.settle(func(b attempt[T]) bool { return b.Verb != VerbCreate && b.uid == a.uid })
		e.end(a.uid, a.rv)
	})
}

// keepUndecided records an attempt.
func (v *View[T]) keepUndecided(key types.NamespacedName, a attempt[T]) {
	a.at = v.clock.Now()
	v.change(key, func(e *entry[T]) {
		v.attempts++
		a.recorded = v.attempts
		e.unknown = v.overlay.withAttempt(e.unknown, a)
	})
}
