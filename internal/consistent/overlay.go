// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// entry is what this process knows about one key beyond the store. Entries are
// replaced, never modified, so that a reader can hold one without a lock.
type entry[T client.Object] struct {
	uid   types.UID
	rv    uint64 // newest version of uid that is known; obj has it if hasObj
	obj   T
	has   bool // obj is set
	dying bool // a delete of uid was accepted
	gone  bool // uid does not exist any more
	// unknown are the writes to this key whose outcome is not known.
	unknown []attempt[T]
	since   time.Time // when the entry first came to be
}

// attempt is an undecided write.
type attempt[T client.Object] struct {
	Attempt[T]
	uid types.UID // of the base
	rv  uint64    // of the base
}

// settledBy reports whether the object (uid, rv), read from the server or the
// store after the attempt was made, proves what became of the attempt. A create
// is settled by any object under its name, a write by a version that moved on.
func (a attempt[T]) settledBy(uid types.UID, rv uint64) bool {
	return a.Verb == VerbCreate || uid != a.uid || rv > a.rv
}

// empty reports whether the entry says nothing.
func (e *entry[T]) empty() bool {
	return !e.has && !e.dying && !e.gone && len(e.unknown) == 0
}

// overlay holds the entries of one kind and finds them by index value. The view
// guards it with its lock.
type overlay[T client.Object] struct {
	indexes map[string]Index[T]
	entries map[types.NamespacedName]*entry[T]
	byIndex map[string]map[string]sets.Set[types.NamespacedName] // index → value → keys
}

func newOverlay[T client.Object](indexes map[string]Index[T]) overlay[T] {
	o := overlay[T]{indexes: indexes}
	o.clear()
	return o
}

func (o *overlay[T]) clear() {
	o.entries = map[types.NamespacedName]*entry[T]{}
	o.byIndex = map[string]map[string]sets.Set[types.NamespacedName]{}
	for name := range o.indexes {
		o.byIndex[name] = map[string]sets.Set[types.NamespacedName]{}
	}
}

// set replaces the entry under key; an entry that says nothing is removed.
func (o *overlay[T]) set(key types.NamespacedName, next *entry[T]) {
	if old, ok := o.entries[key]; ok {
		o.eachValue(old, func(byValue map[string]sets.Set[types.NamespacedName], value string) {
			byValue[value].Delete(key)
			if byValue[value].Len() == 0 {
				delete(byValue, value)
			}
		})
	}
	if next.empty() {
		delete(o.entries, key)
		return
	}
	o.entries[key] = next
	o.eachValue(next, func(byValue map[string]sets.Set[types.NamespacedName], value string) {
		if byValue[value] == nil {
			byValue[value] = sets.New[types.NamespacedName]()
		}
		byValue[value].Insert(key)
	})
}

// eachValue visits every index value under which the entry may be looked for: that
// of the kept object, and those before and after each undecided write.
func (o *overlay[T]) eachValue(e *entry[T], visit func(byValue map[string]sets.Set[types.NamespacedName], value string)) {
	for name, index := range o.indexes {
		values := sets.New[string]()
		if e.has {
			values.Insert(index(e.obj)...)
		}
		for _, a := range e.unknown {
			values.Insert(a.values(index)...)
		}
		for value := range values {
			visit(o.byIndex[name], value)
		}
	}
}

// values are the index values of the object before and after the attempt.
func (a attempt[T]) values(index Index[T]) []string {
	switch a.Verb {
	case VerbCreate:
		return index(a.Intended)
	case VerbDelete:
		return index(a.Base)
	default:
		return append(index(a.Base), index(a.Intended)...)
	}
}

// version parses a resourceVersion. Versions of one resource are comparable
// integers (Kubernetes 1.35, KEP-5504); anything else is 0, older than all.
func version(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
