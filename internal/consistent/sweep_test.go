// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// later moves the clock.
func (b *bench) later(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

// admitted checks whether writes are admitted.
func (b *bench) admitted(want bool) {
	b.Helper()
	if err := b.view.admit(); errors.Is(err, ErrLagging) == want {
		b.Fatalf("admitted: %v, want %v", err, want)
	}
	if got := !b.view.Lag().Behind(); got != want {
		b.Fatalf("ready: %v, want %v", got, want)
	}
}

func TestLag(t *testing.T) {
	t.Run("writes are refused while the oldest reply is older than a minute", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			created := b.create("a", "one")
			b.later(maxAge)
			b.sweep()
			b.admitted(true)
			b.patch(created, label("x", "y")) // a newer reply does not make the lag younger
			b.later(time.Second)
			b.sweep()
			b.admitted(false)
			if _, err := b.view.Create(ctx, pod("b", "one")); !errors.Is(err, ErrLagging) || Again(err) {
				t.Errorf("create: %v", err)
			}
			if _, err := b.view.PatchStatus(ctx, b.get("a"), Patch{"status": nil}); !errors.Is(err, ErrLagging) {
				t.Errorf("patch: %v", err)
			}
			if err := b.view.Delete(ctx, b.get("a"), Precondition{}); !errors.Is(err, ErrLagging) {
				t.Errorf("delete: %v", err)
			}
			b.wire.deliverAll()
			b.sweep()
			b.admitted(true)
		})
	})
	t.Run("an undecided write is no lag", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(delayed)
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			b.later(2 * maxAge)
			b.sweep()
			b.admitted(true)
		})
	})
	t.Run("the wait starts anew after the store had caught up", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			created := b.create("a", "one")
			b.wire.deliverAll()
			b.later(2 * maxAge)
			b.patch(created, label("x", "y"))
			b.sweep()
			b.admitted(true)
			b.later(maxAge + 1)
			b.sweep()
			b.admitted(false)
		})
	})
	t.Run("writes are refused beyond 20,000 entries", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			for i := range maxEntries {
				b.view.keep(seenPod(fmt.Sprint(i), "one", fmt.Sprint("u", i), uint64(1000+i)), 0)
			}
			b.admitted(true)
			b.create("a", "one")
			b.server.version = 100_000
			b.view.keep(seenPod("b", "one", "u", 100_000), 0)
			b.admitted(false)
		})
	})
	t.Run("a store without a version is refused at the start", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			if err := CheckVersion(noVersion{b.view.store}); !errors.Is(err, ErrNoStoreVersion) {
				t.Errorf("got %v", err)
			}
		})
	})
}

type noVersion struct{ Store }

func (noVersion) Version() uint64 { return 0 }

func TestOverdueEntriesAreReadAgain(t *testing.T) {
	t.Run("a create that did not land for five minutes is forgotten", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(unavailable)
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			b.later(forgetAfter)
			b.owns("one") // reads on the way do not make it younger
			b.sweep()
			b.undecided("one", 1)
			b.later(1)
			b.server.down = true
			if err := b.view.Sweep(ctx); err == nil {
				t.Error("the sweep hides that it could not read")
			}
			b.undecided("one", 1)
			b.server.down = false
			b.sweep()
			b.undecided("one", 0)
			b.entries(0)
		})
	})
	t.Run("a create that landed unseen is found before it is forgotten", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(lostReply)
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			b.later(forgetAfter + 1)
			b.sweep()
			b.undecided("one", 0)
			if got := names(b.view.Peek("owner", "one")); len(got) != 1 {
				t.Errorf("shown: %v", got)
			}
		})
	})
	t.Run("a young attempt beside an old one is kept", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.failNext(unavailable)
			_, err := b.view.Create(ctx, pod("a", "one"))
			b.unknown(err)
			b.later(forgetAfter)
			b.server.failNext(unavailable)
			_, err = b.view.Create(ctx, pod("a", "two"))
			b.unknown(err)
			b.later(1)
			b.sweep()
			b.undecided("one", 0)
			b.undecided("two", 1)
		})
	})
	t.Run("an own write is shown for as long as the store stands still, and the lag with it", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			created := b.create("a", "one")
			b.later(2 * forgetAfter)
			b.sweep()
			b.shows(created)
			b.admitted(false)
			if b.server.readCount() != 0 {
				t.Error("entries of a dead informer are read again and again")
			}
		})
	})
	t.Run("reading an entry again does not make the lag younger", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.server.tick()
			created := b.create("a", "one")
			b.wire.bookmark() // the store moves, and is still behind
			b.later(forgetAfter + 1)
			b.sweep()
			if b.server.readCount() != 1 {
				t.Fatalf("%d live reads, want one", b.server.readCount())
			}
			b.shows(created)
			b.admitted(false)
		})
	})
	t.Run("a deleted object whose end never showed is read again, and no read sees it alive meanwhile", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.delete(b.get("a"))
			b.later(forgetAfter + 1)
			b.server.replying = func(string, types.NamespacedName) {
				b.server.replying = nil
				b.terminating("a")
			}
			b.sweep()
			b.absent("a")
			b.wire.deliverAll()
			b.sweep()
			b.entries(0)
		}, pod("a", "one"))
	})
	t.Run("news that come while an entry is read again are kept", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.delete(b.get("a"))
			b.later(forgetAfter + 1)
			var again *corev1.Pod
			b.server.replying = func(string, types.NamespacedName) {
				b.server.replying = nil
				again = b.create("a", "two")
			}
			b.sweep()
			b.shows(again)
		}, pod("a", "one"))
	})
	t.Run("a version of a lost timeline gives way while the store moves", func(t *testing.T) {
		withInformer(t, func(b *bench) {
			b.view.keep(seenPod("a", "ghost", "u", 1_000_000), 0)
			b.owns("ghost", "a")
			b.server.tick()
			b.wire.bookmark()
			b.later(forgetAfter + 1)
			b.sweep()
			b.owns("ghost")
			b.shows(b.server.now(keyOf("a")))
			b.sweep()
			b.entries(0)
		}, pod("a", "one"))
	})
}

func TestStoreThatGoesBackInTimeEmptiesTheOverlay(t *testing.T) {
	withInformer(t, func(b *bench) {
		for range 20 {
			b.server.tick()
		}
		b.create("a", "one")
		b.create("b", "one")
		b.wire.deliverAll()
		b.sweep()
		b.server.failNext(lostReply)
		_, err := b.view.Create(ctx, pod("c", "one"))
		b.unknown(err)
		b.create("d", "one")

		// etcd is restored from an old backup; a new object is made in it.
		s := b.server
		s.version, s.log, s.objects = 105, nil, map[types.NamespacedName]*corev1.Pod{}
		restored := s.add(pod("d", "two"))
		b.wire.relist(105)
		s.down = true
		if err := b.view.Sweep(ctx); err == nil {
			t.Error("the sweep hides that it could not read")
		}
		s.down = false
		b.sweep()
		b.shows(restored)
		b.absent("c")
		b.owns("one")
		b.undecided("one", 0)
		b.wire.deliverAll()
		b.sweep()
		b.entries(0)
		b.shows(restored)
	})
}
