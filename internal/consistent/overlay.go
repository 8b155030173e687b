// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// entry is what this process knows about one key beyond the store: the newest
// object under it, or that it is gone, and the writes nobody knows the outcome of.
// Entries are replaced, never modified, so that a reader can hold one without a lock.
type entry[T client.Object] struct {
	uid   types.UID // empty if only attempts are known
	rv    uint64    // newest version of uid that is known
	obj   T         // uid at rv; the last that is known of it if it is gone
	gone  bool      // uid does not exist any more
	dying *metav1.Time
	// unknown are the writes to this key whose outcome is not known.
	unknown []attempt[T]
	// untold are the versions of uid that the view has shown before the informer did, and
	// that it has not told its handlers of yet.
	untold []uint64
	// settledStatus says that it turned out, with this entry, what came of one to the status.
	settledStatus bool

	since   time.Time // since when the store has been behind rv
	checked time.Time // when the entry was last known to be worth keeping
	seen    uint64    // the store's version at that time
	indexed []indexValue
}

// attempt is an undecided write.
type attempt[T client.Object] struct {
	Attempt[T]
	uid        types.UID // of the base
	rv         uint64    // of the base
	anyVersion bool      // the write was conditional on uid alone
	status     bool      // the write was to the status
	recorded   uint64    // the view's count of attempts when it became undecided
	at         time.Time
}

// sight is one look at the object under a key.
type sight struct {
	uid         types.UID
	rv          uint64
	terminating bool
	// began is the view's count of attempts when the request that saw the object was
	// sent. It is 0 for the store, which may show the past.
	began uint64
}

func seen(obj client.Object, began uint64) sight {
	return sight{uid: obj.GetUID(), rv: version(obj.GetResourceVersion()), terminating: obj.GetDeletionTimestamp() != nil, began: began}
}

// settledBy reports whether s proves what became of the attempt: it landed and s
// shows it, or it cannot land any more.
//
// A create is settled by whatever has its name, if the look began after the create
// became undecided. A write to an existing object is settled by any later version
// under the name, no matter when the look began: its precondition fails from then
// on. A delete without a version can land on a later version too, so nothing
// settles it but the end of its object.
func (a attempt[T]) settledBy(s sight) bool {
	switch {
	case a.Verb == VerbCreate:
		return s.began >= a.recorded
	case a.Verb == VerbDelete && s.uid == a.uid && s.terminating:
		return true
	case a.anyVersion && s.uid == a.uid:
		return false
	default:
		return s.rv > a.rv
	}
}

// settledByAbsence reports whether a quorum read that began at the given count and
// found nothing proves what became of the attempt. It does not for a create: the
// request may still land, and only the same create under the same name tells.
func (a attempt[T]) settledByAbsence(began uint64) bool {
	return a.Verb != VerbCreate && began >= a.recorded
}

// known reports whether the entry says anything about an object.
func (e *entry[T]) known() bool { return e.uid != "" }

// settle removes the attempts for which settled holds.
func (e *entry[T]) settle(settled func(attempt[T]) bool) {
	e.unknown = slices.DeleteFunc(e.unknown, func(a attempt[T]) bool {
		done := settled(a)
		e.settledStatus = e.settledStatus || done && a.status
		return done
	})
}

// show records that obj exists. Replies of concurrent requests arrive out of order;
// the newest wins, and what is gone stays gone.
func (e *entry[T]) show(obj T) {
	uid, rv := obj.GetUID(), version(obj.GetResourceVersion())
	if rv < e.rv || (e.gone && uid == e.uid) {
		return
	}
	if uid != e.uid {
		e.dying, e.gone, e.untold = nil, false, nil
	}
	e.uid, e.rv, e.obj = uid, rv, obj
}

// end records that uid, which existed at version rv, is gone.
func (e *entry[T]) end(uid types.UID, rv uint64) {
	if uid != e.uid && rv < e.rv {
		return // a newer object has the name
	}
	if uid != e.uid {
		var none T
		e.obj = none
	}
	e.uid, e.rv, e.gone, e.dying = uid, max(rv, e.rv), true, nil
}

// overtakes records that the view shows a version of which the store, at version s, may
// not have told yet.
func (e *entry[T]) overtakes(s uint64) {
	if !e.gone && e.rv > s && !slices.Contains(e.untold, e.rv) {
		e.untold = append(slices.Clone(e.untold), e.rv)
	}
}

// terminating returns obj, with a deletion timestamp if a delete of it was accepted
// and obj does not show that yet.
func (e *entry[T]) terminating(obj T) T {
	if e.dying == nil || obj.GetUID() != e.uid || obj.GetDeletionTimestamp() != nil {
		return obj
	}
	dying := obj.DeepCopyObject().(T)
	dying.SetDeletionTimestamp(e.dying)
	return dying
}

// overlay holds the entries of one kind and finds them by index value. The view
// guards it with its lock.
type overlay[T client.Object] struct {
	indexes map[string]Index[T]
	entries map[types.NamespacedName]*entry[T]
	byIndex map[indexValue]sets.Set[types.NamespacedName]
	// removals counts the entries that were removed.
	removals uint64
}

// indexValue is one value of one index.
type indexValue struct{ index, value string }

func newOverlay[T client.Object](indexes map[string]Index[T]) overlay[T] {
	o := overlay[T]{indexes: indexes}
	o.clear()
	return o
}

func (o *overlay[T]) clear() {
	o.removals += uint64(len(o.entries))
	o.entries = map[types.NamespacedName]*entry[T]{}
	o.byIndex = map[indexValue]sets.Set[types.NamespacedName]{}
}

// set replaces the entry under key; an entry that says nothing is removed.
func (o *overlay[T]) set(key types.NamespacedName, next *entry[T]) {
	old := o.entries[key]
	if !next.known() && len(next.unknown) == 0 {
		o.remove(key, old)
		return
	}
	o.unindex(key, old)
	o.entries[key] = next
	next.indexed = o.values(next)
	for _, value := range next.indexed {
		if o.byIndex[value] == nil {
			o.byIndex[value] = sets.New[types.NamespacedName]()
		}
		o.byIndex[value].Insert(key)
	}
}

// told records that the informer has told its handlers of a version under key.
func (o *overlay[T]) told(key types.NamespacedName, rv uint64) {
	e := o.entries[key]
	if e == nil || !slices.Contains(e.untold, rv) {
		return
	}
	next := *e
	next.untold = slices.DeleteFunc(slices.Clone(e.untold), func(v uint64) bool { return v == rv })
	o.entries[key] = &next // its index values are the same
}

// remove removes old, the entry under key; nil is none.
func (o *overlay[T]) remove(key types.NamespacedName, old *entry[T]) {
	if old == nil {
		return
	}
	o.unindex(key, old)
	delete(o.entries, key)
	o.removals++
}

func (o *overlay[T]) unindex(key types.NamespacedName, old *entry[T]) {
	if old == nil {
		return
	}
	for _, value := range old.indexed {
		keys := o.byIndex[value]
		keys.Delete(key)
		if keys.Len() == 0 {
			delete(o.byIndex, value)
		}
	}
}

// values are the index values under which the entry may be looked for: those of the
// known object, and those before and after each undecided write.
func (o *overlay[T]) values(e *entry[T]) []indexValue {
	var values []indexValue
	for name, index := range o.indexes {
		if e.known() && !e.gone {
			values = appendValues(values, name, index(e.obj))
		}
		for _, a := range e.unknown {
			values = appendValues(values, name, a.values(index))
		}
	}
	return values
}

func appendValues(to []indexValue, index string, values []string) []indexValue {
	for _, value := range values {
		if v := (indexValue{index, value}); !slices.Contains(to, v) {
			to = append(to, v)
		}
	}
	return to
}

// values are the index values of the object before and after the attempt.
func (a attempt[T]) values(index Index[T]) []string {
	switch a.Verb {
	case VerbCreate:
		return index(a.Intended)
	case VerbDelete:
		return index(a.Base)
	default:
		return slices.Concat(index(a.Base), index(a.Intended))
	}
}

// withAttempt returns unknown with a in it. A repeat of the same write that an index
// cannot tell apart replaces the earlier one: what settles it settles both.
func (o *overlay[T]) withAttempt(unknown []attempt[T], a attempt[T]) []attempt[T] {
	same := func(b attempt[T]) bool {
		if a.Verb != b.Verb || a.uid != b.uid || a.rv != b.rv || a.anyVersion != b.anyVersion || a.status != b.status {
			return false
		}
		for _, index := range o.indexes {
			if !slices.Equal(a.values(index), b.values(index)) {
				return false
			}
		}
		return true
	}
	return append(slices.DeleteFunc(slices.Clone(unknown), same), a)
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
