// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestRepliesArriveOutOfOrder has a reply overtaken by what other goroutines of the
// process did meanwhile.
func TestRepliesArriveOutOfOrder(t *testing.T) {
	overtake := func(b *bench, verb string, do func()) {
		b.server.replying = func(v string, _ types.NamespacedName) {
			if v == verb {
				b.server.replying = nil
				do()
			}
		}
	}
	t.Run("an older reply does not replace a newer one", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			var newer *corev1.Pod
			overtake(b, "patch", func() { newer = b.patch(b.server.now(keyOf("a")), label("n", "2")) })
			b.patch(b.get("a"), label("n", "1"))
			b.shows(newer)
		}, pod("a", "one"))
	})
	t.Run("a live read returns a write that was answered while it was under way", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			var newer *corev1.Pod
			overtake(b, "get", func() { newer = b.patch(b.server.now(keyOf("a")), label("n", "2")) })
			got, _, err := b.view.Live(ctx, keyOf("a"))
			if err != nil || got.ResourceVersion != newer.ResourceVersion {
				t.Fatalf("got version %s (%v), want %s", got.ResourceVersion, err, newer.ResourceVersion)
			}
		}, pod("a", "one"))
	})
	t.Run("a live read that found nothing does not hide what was created since", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			var created *corev1.Pod
			overtake(b, "get", func() { created = b.create("a", "one") })
			if _, ok, err := b.view.Live(ctx, keyOf("a")); ok || err != nil {
				t.Fatalf("found %v (%v)", ok, err)
			}
			b.shows(created)
		})
	})
	t.Run("a live read that found the old object gone leaves what was created since", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.remove(keyOf("a"))
			var created *corev1.Pod
			overtake(b, "get", func() { created = b.create("a", "two") })
			if _, ok, err := b.view.Live(ctx, keyOf("a")); ok || err != nil {
				t.Fatalf("found %v (%v)", ok, err)
			}
			b.shows(created)
			b.owns("two", "a")
		}, pod("a", "one"))
	})
	t.Run("a live read that found nothing does not bring back what it disproved", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.remove(keyOf("a"))
			if _, ok, err := b.view.Live(ctx, keyOf("a")); ok || err != nil {
				t.Fatalf("found %v (%v)", ok, err)
			}
			b.absent("a")
			b.owns("one")
		}, pod("a", "one"))
	})
	t.Run("a create's reply that comes after the object's end does not bring it back", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			overtake(b, "create", func() {
				b.server.remove(keyOf("a"))
				b.wire.deliverAll()
				b.sweep()
			})
			b.create("a", "one")
			b.absent("a")
			b.entries(0)
		})
	})
	t.Run("a patch's reply that comes after 404 does not bring the object back", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			overtake(b, "patch", func() {
				base := b.server.now(keyOf("a"))
				b.server.remove(keyOf("a"))
				if err := b.view.Delete(ctx, base, Precondition{}); !errors.Is(err, ErrGone) {
					t.Errorf("got %v", err)
				}
			})
			b.patch(b.get("a"), label("n", "1"))
			b.absent("a")
		}, pod("a", "one"))
	})
	t.Run("a delete's reply that comes after the name was taken again leaves the new object alone", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			var second *corev1.Pod
			overtake(b, "delete", func() { second = b.create("a", "two") })
			b.delete(b.get("a"))
			b.shows(second)
			b.owns("one")
		}, pod("a", "one"))
	})
}
