// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options are what a View is made of. Every field but Transform is required.
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
}

// View is the consistent view of one kind.
type View[T client.Object] struct {
	name      string
	api       API[T]
	store     Store
	clock     clock.PassiveClock
	indexes   map[string]Index[T]
	transform func(T) T

	mu      sync.Mutex
	overlay overlay[T]
	highest uint64 // highest store version seen
}

var _ Kind[client.Object] = (*View[client.Object])(nil)

// New returns a view with an empty overlay.
func New[T client.Object](o Options[T]) *View[T] {
	v := &View[T]{name: o.Name, api: o.API, store: o.Store, clock: o.Clock, indexes: o.Indexes, transform: o.Transform, overlay: newOverlay(o.Indexes)}
	if v.transform == nil {
		v.transform = func(obj T) T { return obj }
	}
	return v
}

// Get implements Kind.
func (v *View[T]) Get(ctx context.Context, key types.NamespacedName) (T, bool, error) {
	if err := v.settle(ctx, key); err != nil {
		var none T
		return none, false, err
	}
	obj, ok := v.read(key)
	return obj, ok, nil
}

// By implements Kind.
func (v *View[T]) By(ctx context.Context, index, value string) ([]T, error) {
	written := v.keysBy(index, value)
	for _, key := range written {
		if err := v.settle(ctx, key); err != nil {
			return nil, err
		}
	}
	return v.list(index, value, written), nil
}

// list joins what the store has under value with the written keys.
func (v *View[T]) list(index, value string, written []types.NamespacedName) []T {
	keys := sets.New(written...)
	for _, item := range v.store.ByIndex(index, value) {
		keys.Insert(client.ObjectKeyFromObject(item.(T)))
	}
	found := make([]T, 0, keys.Len())
	for key := range keys {
		if obj, ok := v.read(key); ok && slices.Contains(v.indexes[index](obj), value) {
			found = append(found, obj)
		}
	}
	slices.SortFunc(found, byAge[T])
	return found
}

// byAge orders objects by creation time, then by name.
func byAge[T client.Object](a, b T) int {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), strings.Compare(a.GetName(), b.GetName()))
}

// Undecided implements Kind.
func (v *View[T]) Undecided(index, value string) []Attempt[T] {
	var found []Attempt[T]
	keys := v.keysBy(index, value)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, key := range keys {
		e, ok := v.overlay.entries[key]
		if !ok {
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

// Live implements Kind.
func (v *View[T]) Live(ctx context.Context, key types.NamespacedName) (T, bool, error) {
	var none T
	// What is known before the read starts is what a NotFound disproves; an object
	// the store learns of later is newer than the reply.
	asked := v.entry(key)
	before, known := v.read(key)
	obj, err := v.api.Get(ctx, key)
	if apierrors.IsNotFound(err) {
		if known {
			v.keepGone(key, before.GetUID(), version(before.GetResourceVersion()))
		}
		v.settleAbsent(key, asked)
		return none, false, nil
	}
	if err != nil {
		return none, false, fmt.Errorf("read %s %s: %w", v.name, key, err)
	}
	return v.keep(obj), true, nil
}

// settleAbsent settles the writes to existing objects that were undecided when a
// live read that found nothing began. A create is not settled by absence: the
// request may still land.
func (v *View[T]) settleAbsent(key types.NamespacedName, asked *entry[T]) {
	if asked == nil || len(asked.unknown) == 0 {
		return
	}
	v.change(key, func(e *entry[T]) {
		e.unknown = slices.DeleteFunc(e.unknown, func(a attempt[T]) bool {
			return a.Verb != VerbCreate && slices.ContainsFunc(asked.unknown, func(b attempt[T]) bool { return a.uid == b.uid })
		})
	})
}

// keysBy returns the keys whose entries may matter to value in the named index, in
// a stable order.
func (v *View[T]) keysBy(index, value string) []types.NamespacedName {
	v.mu.Lock()
	defer v.mu.Unlock()
	byValue, ok := v.overlay.byIndex[index]
	if !ok {
		panic(fmt.Sprintf("%s has no index %q", v.name, index))
	}
	keys := byValue[value].UnsortedList()
	slices.SortFunc(keys, compareKeys)
	return keys
}

func (v *View[T]) entry(key types.NamespacedName) *entry[T] {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.overlay.entries[key]
}

// read joins entry and store for one key. The order of the three reads is what
// makes it correct; see the package comment.
func (v *View[T]) read(key types.NamespacedName) (T, bool) {
	e := v.entry(key)
	s := v.store.Version()
	item, ok := v.store.Get(key)
	var stored T
	if ok {
		stored = item.(T)
	}
	return join(e, s, stored, ok)
}

// join decides between what the process wrote and what the store shows.
func join[T client.Object](e *entry[T], s uint64, stored T, inStore bool) (T, bool) {
	var none T
	if e == nil || (!e.has && !e.dying && !e.gone) {
		return stored, inStore
	}
	if !inStore {
		if !e.has || e.gone || s >= e.rv {
			return none, false
		}
		return e.terminating(e.obj), true
	}
	if stored.GetUID() == e.uid && e.gone {
		return none, false
	}
	if version(stored.GetResourceVersion()) >= e.rv || !e.has {
		return e.terminating(stored), true
	}
	if e.gone {
		return none, false
	}
	return e.terminating(e.obj), true
}

// terminating shows obj with a deletion timestamp if a delete of it was accepted
// and obj does not show that yet.
func (e *entry[T]) terminating(obj T) T {
	if !e.dying || obj.GetUID() != e.uid || obj.GetDeletionTimestamp() != nil {
		return obj
	}
	dying := obj.DeepCopyObject().(T)
	at := metav1.NewTime(e.since)
	dying.SetDeletionTimestamp(&at)
	return dying
}

// change replaces the entry under key by what edit makes of a copy of it.
func (v *View[T]) change(key types.NamespacedName, edit func(*entry[T])) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := entry[T]{since: v.clock.Now()}
	if old := v.overlay.entries[key]; old != nil {
		next = *old
		next.unknown = slices.Clone(old.unknown)
	}
	edit(&next)
	v.overlay.set(key, &next)
}

// keep records an object from the server's reply and returns it as the view shows
// it. Replies of concurrent writers arrive out of order; the newest wins.
func (v *View[T]) keep(obj T) T {
	obj = v.transform(obj)
	s, now := v.store.Version(), v.clock.Now()
	v.change(client.ObjectKeyFromObject(obj), func(e *entry[T]) {
		if s >= e.rv { // the store had caught up: the wait starts anew
			e.since = now
		}
		e.keep(obj)
	})
	return obj
}

func (e *entry[T]) keep(obj T) {
	uid, rv := obj.GetUID(), version(obj.GetResourceVersion())
	e.unknown = slices.DeleteFunc(e.unknown, func(a attempt[T]) bool { return a.settledBy(uid, rv) })
	if rv < e.rv || (e.gone && uid == e.uid) {
		return
	}
	if uid != e.uid {
		e.dying, e.gone = false, false
	}
	e.uid, e.rv, e.obj, e.has = uid, rv, obj, true
}

// keepGone records that uid, known at version rv, does not exist.
func (v *View[T]) keepGone(key types.NamespacedName, uid types.UID, rv uint64) {
	v.change(key, func(e *entry[T]) {
		e.unknown = slices.DeleteFunc(e.unknown, func(a attempt[T]) bool { return a.Verb != VerbCreate && a.uid == uid })
		if e.uid != uid && e.rv > rv {
			return // a newer object has the name
		}
		var none T
		*e = entry[T]{uid: uid, rv: max(rv, e.rv), obj: none, gone: true, unknown: e.unknown, since: e.since}
	})
}

// keepDying records that a delete of uid, known at version rv, was accepted.
func (v *View[T]) keepDying(key types.NamespacedName, uid types.UID, rv uint64) {
	v.change(key, func(e *entry[T]) {
		e.unknown = slices.DeleteFunc(e.unknown, func(a attempt[T]) bool { return a.Verb == VerbDelete && a.uid == uid })
		if e.uid != uid {
			if e.rv > rv {
				return // a newer object has the name
			}
			*e = entry[T]{uid: uid, rv: rv, unknown: e.unknown, since: e.since}
		}
		e.dying = true
	})
}
