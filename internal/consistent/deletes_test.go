// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestDeletes(t *testing.T) {
	t.Run("an accepted delete is shown as terminating until the informer shows the end", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.delete(b.get("a"))
			b.terminating("a")
			b.owns("one", "a")
			b.sweep()
			b.terminating("a")
			if p, _ := b.view.stored(keyOf("a")); p.DeletionTimestamp != nil {
				t.Fatal("the informer's object was modified")
			}
			b.wire.deliverAll()
			b.absent("a")
			b.owns("one")
			b.sweep()
			b.entries(0)
		}, pod("a", "one"))
	})
	t.Run("an own object that is deleted before the informer saw it stays visible as terminating", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.delete(b.create("a", "one"))
			b.terminating("a")
			b.owns("one", "a")
			b.wire.deliver(1)
			b.sweep()
			b.terminating("a")
			b.wire.deliver(1)
			b.absent("a")
			b.sweep()
			b.entries(0)
		})
	})
	t.Run("a foreign edit between does not hide that it is terminating", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.edit(keyOf("a"), func(p *corev1.Pod) { p.Labels["x"] = "y" })
			if err := b.view.Delete(ctx, b.get("a"), Precondition{AnyVersion: true}); err != nil {
				t.Fatal(err)
			}
			b.wire.deliver(1)
			b.sweep()
			b.terminating("a")
			b.wire.deliver(1)
			b.sweep()
			b.terminating("a")
			b.entries(0)
			b.server.remove(keyOf("a"))
			b.wire.deliver(1)
			b.absent("a")
		}, finalized(pod("a", "one")))
	})
	t.Run("the name can be used again once the object is gone", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.delete(b.get("a"))
			again := b.create("a", "two")
			b.shows(again)
			b.owns("one")
			b.owns("two", "a")
			b.wire.deliver(1)
			b.sweep()
			b.shows(again)
			b.wire.deliver(1)
			b.sweep()
			b.shows(again)
			b.entries(0)
		}, pod("a", "one"))
	})
	t.Run("a write to an object that is gone makes it absent at once", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			base := b.get("a")
			b.server.remove(keyOf("a"))
			if err := b.view.Delete(ctx, base, Precondition{}); !errors.Is(err, ErrGone) || !Again(err) {
				t.Fatalf("got %v, want ErrGone", err)
			}
			b.absent("a")
			b.owns("one")
			b.sweep()
			b.absent("a")
			b.wire.deliverAll()
			b.sweep()
			b.entries(0)
		}, pod("a", "one"))
	})
	t.Run("a gone object does not uncover what had its name before", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.remove(keyOf("a"))
			second := b.create("a", "one")
			b.server.remove(keyOf("a"))
			if _, err := b.view.Patch(ctx, second, label("x", "y")); !errors.Is(err, ErrGone) {
				t.Fatalf("got %v, want ErrGone", err)
			}
			b.absent("a")
			b.owns("one")
			b.sweep()
			b.wire.deliver(1)
			b.absent("a")
			b.wire.deliver(1)
			b.absent("a")
			b.wire.deliverAll()
			b.sweep()
			b.entries(0)
		}, pod("a", "one"))
	})
	t.Run("a path that is not served proves nothing about the object", func(t *testing.T) {
		notServed := apierrors.NewGenericServerResponse(404, "get", pods, "a", "404 page not found", 0, true)
		if !apierrors.IsNotFound(notServed) || absent(notServed) {
			t.Error("a 404 for the path is taken for the absence of the object")
		}
		if !absent(apierrors.NewNotFound(pods, "a")) {
			t.Error("a 404 for the object is not taken for its absence")
		}
	})
}
