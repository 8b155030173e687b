// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

func TestUndecidedCreates(t *testing.T) {
	t.Run("a create whose reply was lost is found by the next read of its name or owner", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(lostReply)
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			b.owns("one", "a")
			b.undecided("one", 0)
			b.shows(b.server.now(keyOf("a")))
		})
	})
	t.Run("AlreadyExists that our own first attempt caused is settled as ours", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(resent)
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			if !apierrors.IsAlreadyExists(err) {
				t.Fatalf("got %v, want AlreadyExists to show through", err)
			}
			b.shows(b.server.now(keyOf("a")))
			b.undecided("one", 0)
		})
	})
	t.Run("AlreadyExists of a stranger shows the stranger", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			other := b.server.add(pod("a", "two"))
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			b.owns("one")
			b.shows(other)
		})
	})
	t.Run("a create whose reply was lost shows that what had the name is gone, to whoever looks for that too", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.remove(keyOf("old")) // the informer does not know
			b.server.failNext(lostReply)
			_, err := b.view.Create(ctx, pod("old", "one"))
			b.unknown(err)
			b.owns("two")
		}, pod("old", "two"))
	})
	t.Run("absence does not settle a create, the same create under the same name does", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(delayed)
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			b.absent("a")
			b.owns("one")
			b.undecided("one", 1)
			created := b.create("a", "one")
			b.undecided("one", 0)
			b.server.landLate()
			b.shows(created)
			b.owns("one", "a")
		})
	})
	t.Run("a delayed create is found when it lands after the read that missed it", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(delayed)
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			b.owns("one")
			b.server.landLate()
			b.owns("one", "a")
			b.undecided("one", 0)
		})
	})
	t.Run("repeats under one name count once", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			for range 5 {
				b.server.failNext(unavailable)
				_, err := b.view.Create(ctx, pod("a", "one"))
				b.unknown(err)
			}
			b.undecided("one", 1)
			b.server.failNext(unavailable)
			_, err := b.view.Create(ctx, pod("a", "two"))
			b.unknown(err)
			b.undecided("one", 1)
			b.undecided("two", 1)
		})
	})
	t.Run("what the informer shows does not settle a create, it may be the past", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.remove(keyOf("a")) // the informer does not know yet
			b.server.failNext(delayed)
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			b.absent("a")
			b.undecided("one", 1)
		}, pod("a", "old"))
	})
	t.Run("a read that began before the create became undecided does not settle it", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.replying = func(verb string, _ types.NamespacedName) {
				if verb != "get" {
					return
				}
				b.server.replying = nil // the reply with the old object is under way ...
				b.server.remove(keyOf("a"))
				b.server.failNext(delayed)
				_, err := b.view.Create(ctx, pod("a", "one"))
				b.unknown(err)
			}
			if _, _, err := b.view.Live(ctx, keyOf("a")); err != nil {
				t.Fatal(err)
			}
			b.undecided("one", 1)
			b.absent("a")
			b.server.landLate()
			b.shows(b.server.now(keyOf("a")))
		}, pod("a", "old"))
	})
	t.Run("a patch that began before the create became undecided does not settle it", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			base := b.get("a")
			b.server.replying = func(string, types.NamespacedName) {
				b.server.replying = nil
				b.server.remove(keyOf("a"))
				b.server.failNext(delayed)
				_, err := b.view.Create(ctx, pod("a", "one"))
				b.unknown(err)
			}
			b.patch(base, label("x", "y"))
			b.undecided("one", 1)
		}, pod("a", "old"))
	})
	t.Run("a create that the server refused is not undecided", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			v := b.view
			v.api = refusing{b.server, apierrors.NewForbidden(pods, "a", errors.New("quota"))}
			_, err := v.Create(ctx, pod("a", "one"))
			if !apierrors.IsForbidden(err) || Again(err) {
				t.Fatalf("got %v, want Forbidden", err)
			}
			b.undecided("one", 0)
			b.entries(0)
		})
	})
	t.Run("a create without a name is not sent", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			if _, err := b.view.Create(ctx, pod("", "one")); !errors.Is(err, errNoName) || len(b.server.log) > 0 {
				t.Fatalf("got %v", err)
			}
		})
	})
}

func TestUndecidedPatches(t *testing.T) {
	t.Run("a patch that landed with its reply lost is shown by the next read", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(lostReply)
			_, err := b.view.Patch(ctx, b.get("a"), label("owner", "two"))
			b.unknown(err)
			b.owns("two", "a")
			b.owns("one")
			b.undecided("two", 0)
			b.shows(b.server.now(keyOf("a")))
		}, pod("a", "one"))
	})
	t.Run("an own conflict is settled as landed", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(resent)
			_, err := b.view.Patch(ctx, b.get("a"), label("owner", "two"))
			b.unknown(err)
			b.owns("one")
			b.owns("two", "a")
		}, pod("a", "one"))
	})
	t.Run("an unchanged version does not settle a patch, a moved one does", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(delayed)
			base := b.get("a")
			_, err := b.view.Patch(ctx, base, label("owner", "two"))
			b.unknown(err)
			b.owns("one", "a")
			b.undecided("one", 1)
			b.undecided("two", 1)
			b.shows(base)
			b.undecided("two", 1)
			edited := b.server.edit(keyOf("a"), func(p *corev1.Pod) { p.Labels["x"] = "y" })
			b.shows(edited)
			b.undecided("two", 0)
			b.server.landLate()
			b.shows(edited)
		}, pod("a", "one"))
	})
	t.Run("a moved version in the informer settles it without a request", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(delayed)
			_, err := b.view.Patch(ctx, b.get("a"), label("owner", "two"))
			b.unknown(err)
			edited := b.server.edit(keyOf("a"), func(p *corev1.Pod) { p.Labels["x"] = "y" })
			b.wire.deliverAll()
			b.shows(edited)
			b.undecided("two", 0)
			if b.server.readCount() != 0 {
				t.Error("a live read was made")
			}
			b.entries(0)
		}, pod("a", "one"))
	})
	t.Run("the repeat of the patch settles both", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(unavailable)
			base := b.get("a")
			_, err := b.view.Patch(ctx, base, label("owner", "two"))
			b.unknown(err)
			b.patch(base, label("owner", "two"))
			b.undecided("two", 0)
			b.owns("two", "a")
		}, pod("a", "one"))
	})
	t.Run("the end of the object settles it", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(delayed)
			_, err := b.view.Patch(ctx, b.get("a"), label("owner", "two"))
			b.unknown(err)
			b.server.remove(keyOf("a"))
			b.owns("two")
			b.undecided("two", 0)
			b.absent("a")
		}, pod("a", "one"))
	})
	t.Run("a 404 for a later write settles it", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			base := b.get("a")
			b.server.failNext(delayed)
			_, err := b.view.Patch(ctx, base, label("owner", "two"))
			b.unknown(err)
			b.server.remove(keyOf("a"))
			if err := b.view.Delete(ctx, base, Precondition{}); !errors.Is(err, ErrGone) {
				t.Fatalf("got %v, want ErrGone", err)
			}
			b.undecided("two", 0)
		}, pod("a", "one"))
	})
	t.Run("a late reply about an earlier object of the same name does not settle it", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.replying = func(string, types.NamespacedName) {
				b.server.replying = nil // the reply with the first object is under way ...
				b.server.remove(keyOf("a"))
				second := b.server.add(pod("a", "second"))
				b.server.failNext(delayed)
				_, err := b.view.Patch(ctx, second, label("owner", "two"))
				b.unknown(err)
			}
			if _, _, err := b.view.Live(ctx, keyOf("a")); err != nil {
				t.Fatal(err)
			}
			b.undecided("two", 1)
			b.server.landLate()
			b.owns("two", "a")
		}, pod("a", "first"))
	})
	t.Run("while the server cannot be asked, reads that matter fail", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(delayed)
			_, err := b.view.Patch(ctx, b.get("a"), label("owner", "two"))
			b.unknown(err)
			b.server.down = true
			if _, _, err := b.view.Get(ctx, keyOf("a")); err == nil {
				t.Error("Get answers")
			}
			if _, err := b.view.By(ctx, "owner", "two"); err == nil {
				t.Error("By of the intended owner answers")
			}
			if _, err := b.view.By(ctx, "owner", "one"); err == nil {
				t.Error("By of the present owner answers")
			}
			b.owns("three")
			if got := names(b.view.Peek("owner", "one")); len(got) != 1 {
				t.Errorf("Peek shows %v, want the object as it was", got)
			}
		}, pod("a", "one"))
	})
	t.Run("a patch without a condition is not sent", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			if _, err := b.view.Patch(ctx, pod("a", "one"), label("x", "y")); !errors.Is(err, errNoCondition) {
				t.Errorf("patch: %v", err)
			}
			if err := b.view.Delete(ctx, pod("a", "one"), Precondition{AnyVersion: true}); !errors.Is(err, errNoCondition) {
				t.Errorf("delete: %v", err)
			}
		})
	})
}

func TestUndecidedDeletes(t *testing.T) {
	t.Run("a delete on the UID alone that landed on a later version is found under what that is of", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			decidedOn := b.get("old")
			b.server.edit(keyOf("old"), func(p *corev1.Pod) { p.Labels["owner"] = "two" })
			b.server.failNext(lostReply)
			b.unknown(b.view.Delete(ctx, decidedOn, Precondition{AnyVersion: true}))
			b.wire.deliver(1)
			b.owns("two")
		}, pod("old", "one"))
	})
	t.Run("a delete whose reply was lost shows the object terminating or gone", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(lostReply)
			b.unknown(b.view.Delete(ctx, b.get("a"), Precondition{}))
			b.absent("a")
			b.server.failNext(lostReply)
			b.unknown(b.view.Delete(ctx, b.get("b"), Precondition{}))
			b.terminating("b")
			b.undecided("one", 0)
		}, pod("a", "one"), finalized(pod("b", "one")))
	})
	t.Run("a conflict on the UID shows the new holder of the name", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			base := b.get("a")
			b.server.remove(keyOf("a"))
			second := b.server.add(pod("a", "two"))
			b.unknown(b.view.Delete(ctx, base, Precondition{AnyVersion: true}))
			b.owns("one")
			b.shows(second)
			b.undecided("one", 0)
		}, pod("a", "one"))
	})
	t.Run("a delete with a version is settled by a later version", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(delayed)
			b.unknown(b.view.Delete(ctx, b.get("a"), Precondition{}))
			edited := b.server.edit(keyOf("a"), func(p *corev1.Pod) { p.Labels["x"] = "y" })
			b.shows(edited)
			b.undecided("one", 0)
		}, pod("a", "one"))
	})
	t.Run("a delete by UID alone may land on a later version and stays undecided", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(delayed)
			b.unknown(b.view.Delete(ctx, b.get("a"), Precondition{AnyVersion: true}))
			edited := b.server.edit(keyOf("a"), func(p *corev1.Pod) { p.Labels["x"] = "y" })
			b.wire.deliverAll()
			b.shows(edited)
			b.undecided("one", 1)
			b.server.landLate()
			b.terminating("a")
			b.undecided("one", 0)
		}, finalized(pod("a", "one")))
	})
	t.Run("the repeat of the delete settles both", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(unavailable)
			b.unknown(b.view.Delete(ctx, b.get("a"), Precondition{AnyVersion: true}))
			b.delete(b.get("a"))
			b.undecided("one", 0)
			b.terminating("a")
		}, pod("a", "one"))
	})
}

// refusing answers every create with an error.
type refusing struct {
	API[*corev1.Pod]
	err error
}

func (r refusing) Create(context.Context, *corev1.Pod) (*corev1.Pod, error) { return nil, r.err }
