// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

// bench is a view over a real informer that is held back, with helpers that fail
// the test.
type bench struct {
	*testing.T
	server *server
	wire   *wire
	view   *View[*corev1.Pod]
	clock  *clocktesting.FakePassiveClock
}

// withInformer runs a test in a bubble. The informer has listed the given pods.
func withInformer(t *testing.T, do func(b *bench), listed ...*corev1.Pod) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for _, p := range listed {
			s.add(p)
		}
		w := connect(t, s)
		v, clock := w.view()
		do(&bench{T: t, server: s, wire: w, view: v, clock: clock})
	})
}

func (b *bench) get(name string) *corev1.Pod {
	b.Helper()
	obj, ok, err := b.view.Get(context.Background(), keyOf(name))
	if err != nil {
		b.Fatalf("get %s: %v", name, err)
	}
	if !ok {
		return nil
	}
	return obj
}

// shows checks that the view shows the pod in the state that obj is in.
func (b *bench) shows(obj *corev1.Pod) {
	b.Helper()
	got := b.get(obj.Name)
	if got == nil {
		b.Fatalf("%s is absent, want version %s", obj.Name, obj.ResourceVersion)
	}
	if got.UID != obj.UID || got.ResourceVersion != obj.ResourceVersion || got.DeletionTimestamp != nil != (obj.DeletionTimestamp != nil) {
		b.Fatalf("%s is shown as %s at %s (terminating: %v), want %s at %s", obj.Name, got.UID, got.ResourceVersion, got.DeletionTimestamp != nil, obj.UID, obj.ResourceVersion)
	}
}

func (b *bench) absent(name string) {
	b.Helper()
	if got := b.get(name); got != nil {
		b.Fatalf("%s is shown as %s at %s, want it absent", name, got.UID, got.ResourceVersion)
	}
}

func (b *bench) terminating(name string) {
	b.Helper()
	if got := b.get(name); got == nil || got.DeletionTimestamp == nil {
		b.Fatalf("%s is not shown as terminating: %v", name, got)
	}
}

// owns checks whom the index finds.
func (b *bench) owns(owner string, want ...string) {
	b.Helper()
	found, err := b.view.By(context.Background(), "owner", owner)
	if err != nil {
		b.Fatal(err)
	}
	if got := names(found); !slices.Equal(got, want) {
		b.Fatalf("%s owns %v, want %v", owner, got, want)
	}
}

func names(found []*corev1.Pod) []string {
	var names []string
	for _, p := range found {
		names = append(names, p.Name)
	}
	return names
}

func (b *bench) undecided(owner string, want int) {
	b.Helper()
	if got := len(b.view.Undecided("owner", owner)); got != want {
		b.Fatalf("%d undecided writes under %s, want %d", got, owner, want)
	}
}

func (b *bench) create(name, owner string) *corev1.Pod {
	b.Helper()
	created, err := b.view.Create(context.Background(), pod(name, owner))
	if err != nil {
		b.Fatal(err)
	}
	return created
}

func (b *bench) patch(base *corev1.Pod, p Patch) *corev1.Pod {
	b.Helper()
	patched, err := b.view.Patch(context.Background(), base, p)
	if err != nil {
		b.Fatal(err)
	}
	return patched
}

func (b *bench) delete(obj *corev1.Pod) {
	b.Helper()
	if err := b.view.Delete(context.Background(), obj, Precondition{}); err != nil {
		b.Fatal(err)
	}
}

// unknown checks that a write's outcome is open.
func (b *bench) unknown(err error) {
	b.Helper()
	var undecided *UndecidedError
	if !errors.As(err, &undecided) || !Again(err) {
		b.Fatalf("the outcome should be unknown, got %v", err)
	}
}

func (b *bench) sweep() {
	b.Helper()
	if err := b.view.Sweep(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// entries checks the size of the overlay.
func (b *bench) entries(want int) {
	b.Helper()
	if got := b.view.Lag().Entries; got != want {
		b.Fatalf("%d entries, want %d", got, want)
	}
	if want == 0 && len(b.view.overlay.byIndex) != 0 {
		b.Fatalf("the empty overlay's index is not: %v", b.view.overlay.byIndex)
	}
}

func finalized(p *corev1.Pod) *corev1.Pod {
	p.Finalizers = []string{"example.com/wait"}
	return p
}

var ctx = context.Background()

func TestOwnWritesAreSeenBeforeTheInformer(t *testing.T) {
	withInformer(t, func(b *bench) {
		created := b.create("a", "one")
		b.shows(created)
		b.owns("one", "a")

		moved := b.patch(created, label("owner", "two"))
		b.shows(moved)
		b.owns("one")
		b.owns("two", "a")

		b.wire.deliver(1) // the informer shows the create only
		b.sweep()
		b.shows(moved)
		b.owns("one")
		b.owns("two", "a")
		b.entries(1)

		b.wire.deliver(1)
		b.shows(moved)
		b.sweep()
		b.entries(0)
		b.shows(moved)
		b.owns("one")
		b.owns("two", "a")
		if reads := b.server.readCount(); reads != 0 {
			t.Errorf("%d live reads, want none", reads)
		}
	})
}

func TestForeignChangesWin(t *testing.T) {
	t.Run("a later foreign edit is shown over the own write", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			created := b.create("a", "one")
			edited := b.server.edit(keyOf("a"), func(p *corev1.Pod) { p.Labels["owner"] = "two" })
			b.shows(created)
			b.wire.deliverAll()
			b.shows(edited)
			b.owns("one")
			b.owns("two", "a")
			b.sweep()
			b.entries(0)
		})
	})
	t.Run("a foreign delete is believed once the store is past the own write", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			created := b.create("a", "one")
			b.server.remove(keyOf("a"))
			b.shows(created)
			b.wire.deliver(1)
			b.shows(created)
			b.wire.deliver(1)
			b.absent("a")
			b.owns("one")
			b.sweep()
			b.entries(0)
		})
	})
	t.Run("an object that another writer made under the name of a deleted one is shown", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.create("a", "one")
			b.server.remove(keyOf("a"))
			other := b.server.add(pod("a", "two"))
			b.wire.deliver(2)
			b.absent("a")
			b.wire.deliver(1)
			b.shows(other)
			b.sweep()
			b.entries(0)
			b.shows(other)
		})
	})
}

func TestInformerRestarts(t *testing.T) {
	t.Run("a relist that is older than an own write does not undo it", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.tick()
			listed := b.server.latest()
			created := b.create("a", "one")
			b.wire.relist(listed)
			b.sweep()
			b.shows(created)
			b.entries(1)
		})
	})
	t.Run("a relist that skips the whole life of an own object shows it absent", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.create("a", "one")
			b.server.remove(keyOf("a"))
			b.wire.relist(b.server.latest())
			b.absent("a")
			b.owns("one")
			b.sweep()
			b.entries(0)
		})
	})
	t.Run("a relist that skips a recreation shows the new object", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.create("a", "one")
			b.server.remove(keyOf("a"))
			second := b.server.add(pod("a", "two"))
			b.wire.relist(b.server.latest())
			b.shows(second)
			b.owns("one")
			b.owns("two", "a")
		})
	})
	t.Run("a bookmark alone tells that an own object is gone or not yet there", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.tick()
			created := b.create("b", "one")
			b.wire.bookmark() // up to the version before the create
			b.sweep()
			b.shows(created)
			b.wire.deliverAll()
			b.server.tick()
			b.server.tick()
			b.wire.bookmark()
			if got, want := b.view.store.Version(), b.server.latest(); got != want {
				t.Fatalf("the store is at %d, want %d", got, want)
			}
			b.sweep()
			b.entries(0)
			b.shows(created)
		})
	})
	t.Run("a resync does not move the store back to the versions of old objects", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.tick()
			b.wire.bookmark()
			resynced := make(chan struct{}, 1)
			if _, err := b.wire.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { resynced <- struct{}{} }}); err != nil {
				t.Fatal(err)
			}
			<-resynced // the bubble's clock jumps there
			if got, want := b.view.store.Version(), b.server.latest(); got != want {
				t.Fatalf("the store is at %d, want %d", got, want)
			}
		}, pod("a", "one"))
	})
}

func TestLateEventsDoNotHoldBackTheView(t *testing.T) {
	withInformer(t, func(b *bench) {
		release := make(chan struct{})
		defer close(release)
		if _, err := b.wire.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-release }}); err != nil {
			t.Fatal(err)
		}
		first, second := b.server.add(pod("a", "one")), b.server.add(pod("b", "one"))
		b.wire.deliverAll()
		b.shows(first)
		b.shows(second)
	})
}

func TestObjectsAreTransformedAndStoredOnesNeverModified(t *testing.T) {
	withInformer(t, func(b *bench) {
		p := pod("a", "one")
		p.Spec.NodeName = "n"
		created, err := b.view.Create(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if created.Spec.NodeName != "" || b.get("a").Spec.NodeName != "" {
			t.Error("the reply is kept as the informer would not store it")
		}
		if p.Spec.NodeName != "n" {
			t.Error("the caller's object was modified")
		}
	})
}

func TestByOrdersByAgeThenName(t *testing.T) {
	at := func(name, namespace string, second int) *corev1.Pod {
		p := seenPod(name, "one", namespace+name, 1)
		p.Namespace = namespace
		p.CreationTimestamp.Time = epoch.Add(time.Duration(second) * time.Second)
		return p
	}
	want := []*corev1.Pod{at("z", "ns", 1), at("a", "ns", 2), at("b", "ns", 2), at("b", "other", 2)}
	for i := range want {
		for j := range want {
			if got := byAge(want[i], want[j]); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%d and %d compare as %d", i, j, got)
			}
		}
	}
}
