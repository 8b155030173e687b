// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// hooked is a store that lets something happen between two reads of it.
type hooked struct {
	Store
	before map[string]func()
	after  map[string]func()
}

func (h *hooked) run(hooks map[string]func(), call string) {
	if hook := hooks[call]; hook != nil {
		delete(hooks, call)
		hook()
	}
}

func (h *hooked) Version() uint64 {
	h.run(h.before, "Version")
	defer h.run(h.after, "Version")
	return h.Store.Version()
}

func (h *hooked) Get(key types.NamespacedName) (any, bool) {
	h.run(h.before, "Get")
	defer h.run(h.after, "Get")
	return h.Store.Get(key)
}

func (h *hooked) ByIndex(index, value string) []any {
	h.run(h.before, "ByIndex")
	defer h.run(h.after, "ByIndex")
	return h.Store.ByIndex(index, value)
}

// readers of one key: the view's own, and two that take the reads in a wrong order.
var readers = map[string]func(*View[*corev1.Pod], types.NamespacedName) (*corev1.Pod, bool){
	"the view": func(v *View[*corev1.Pod], key types.NamespacedName) (*corev1.Pod, bool) {
		got, ok, _ := v.Get(ctx, key)
		return got, ok
	},
	"store before entry": func(v *View[*corev1.Pod], key types.NamespacedName) (*corev1.Pod, bool) {
		s := v.store.Version()
		stored, ok := v.stored(key)
		e, _ := v.entry(key)
		return join(e, s, stored, ok)
	},
	"item before version": func(v *View[*corev1.Pod], key types.NamespacedName) (*corev1.Pod, bool) {
		e, _ := v.entry(key)
		stored, ok := v.stored(key)
		return join(e, v.store.Version(), stored, ok)
	},
}

// listers of one index value, likewise.
var listers = map[string]func(*View[*corev1.Pod], string) []*corev1.Pod{
	"the view": func(v *View[*corev1.Pod], value string) []*corev1.Pod {
		found, _ := v.By(ctx, "owner", value)
		return found
	},
	"hits before keys": func(v *View[*corev1.Pod], value string) []*corev1.Pod {
		hits := v.store.ByIndex("owner", value)
		written, removals := v.written(indexValue{"owner", value})
		found, _ := v.joinedHits(indexValue{"owner", value}, written, removals, hits)
		return found
	},
	"removals not noticed": func(v *View[*corev1.Pod], value string) []*corev1.Pod {
		written, _ := v.written(indexValue{"owner", value})
		hits := v.store.ByIndex("owner", value)
		_, removals := v.written(indexValue{"owner", value})
		found, _ := v.joinedHits(indexValue{"owner", value}, written, removals, hits)
		return found
	},
}

// TestReadOrder lets the informer deliver, and the overlay be swept, between any two
// reads of the store. The view never loses an own write; readers with another order
// do, which shows that the test can tell.
func TestReadOrder(t *testing.T) {
	points := []struct{ when, call string }{
		{"before", "Version"}, {"after", "Version"}, {"before", "Get"}, {"after", "Get"}, {"before", "ByIndex"}, {"after", "ByIndex"},
	}
	// at runs do with an own write that the informer has not seen, delivered and
	// swept at the given point.
	at := func(when, call string, sweep bool, prepare, do func(*bench)) {
		withInformer(t, func(b *bench) {
			h := &hooked{Store: b.view.store, before: map[string]func(){}, after: map[string]func(){}}
			b.view.store = h
			prepare(b)
			hook := func() {
				h.before, h.after = nil, nil
				b.wire.deliverAll()
				if sweep {
					b.sweep()
				}
			}
			if when == "before" {
				h.before[call] = hook
			} else {
				h.after[call] = hook
			}
			do(b)
		}, pod("b", "old"))
	}
	losses := map[string]int{}
	for _, p := range points {
		for _, sweep := range []bool{false, true} {
			for name, read := range readers {
				at(p.when, p.call, sweep, func(b *bench) { b.create("a", "one") }, func(b *bench) {
					if got, ok := read(b.view, keyOf("a")); !ok || got.Labels["owner"] != "one" {
						losses[name]++
					}
				})
			}
			for name, list := range listers {
				name = "list: " + name
				at(p.when, p.call, sweep, func(b *bench) {
					b.create("a", "one")
					b.patch(b.get("b"), label("owner", "one"))
				}, func(b *bench) {
					if got := list(b.view, "one"); len(got) != 2 {
						losses[name]++
					}
				})
				at(p.when, p.call, sweep, func(b *bench) { b.patch(b.get("b"), label("owner", "one")) }, func(b *bench) {
					if got := list(b.view, "old"); len(got) != 0 {
						losses[name]++
					}
				})
			}
		}
	}
	for name, wantLoss := range map[string]bool{
		"the view": false, "store before entry": true, "item before version": true,
		"list: the view": false, "list: hits before keys": true, "list: removals not noticed": true,
	} {
		if losses[name] > 0 != wantLoss {
			t.Errorf("%s lost %d own writes", name, losses[name])
		}
	}
}
