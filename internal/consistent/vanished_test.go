// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestASweepTellsOfWhatNoEventTells(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(b *bench)
		want    []string
	}{
		"an own object came and went while the watch was broken": {
			func(b *bench) {
				b.create("new", "one")
				b.server.remove(keyOf("new"))
			}, []string{"new of one"},
		},
		"so did one in whose place is another": {
			func(b *bench) {
				b.create("new", "one")
				b.server.remove(keyOf("new"))
				b.server.add(pod("new", "two"))
			}, []string{"new of one"},
		},
		"and one whose name another has got, as this process learnt before": {
			func(b *bench) {
				b.create("new", "one")
				b.server.remove(keyOf("new"))
				b.server.add(pod("new", "two"))
				if _, ok, err := b.view.Live(ctx, keyOf("new")); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}, []string{"new of one"},
		},
		"an object changed hands by an own write and went": {
			func(b *bench) {
				b.patch(b.get("old"), Patch{"metadata": map[string]any{"labels": map[string]any{"owner": "one"}}})
				b.server.remove(keyOf("old"))
			}, []string{"old of one"},
		},
		"a live read showed that an own object is gone": {
			func(b *bench) {
				b.create("new", "one")
				b.server.remove(keyOf("new"))
				if _, ok, err := b.view.Live(ctx, keyOf("new")); ok || err != nil {
					b.Fatal(ok, err)
				}
			}, []string{"new of one"},
		},
		"an own object that lives is nothing to tell of": {
			func(b *bench) { b.create("new", "one") }, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withInformer(t, func(b *bench) {
				var told []string
				b.view.vanished = func(last *corev1.Pod) { told = append(told, last.Name+" of "+last.Labels["owner"]) }
				c.happens(b)
				b.wire.relist(b.server.latest())
				b.sweep()
				b.sweep()
				if !slices.Equal(told, c.want) {
					b.Errorf("told of %v, want %v", told, c.want)
				}
			}, pod("old", "nobody"))
		})
	}
}
