// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"fmt"
	"testing"

	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	corev1 "k8s.io/api/core/v1"
)

// loaded is a view over a store with n pods of one owner and an overlay of written
// entries, half of them for stored pods.
func loaded(n, written int) (*View[*corev1.Pod], cache.Indexer) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers(byOwner))
	for i := range n {
		_ = indexer.Add(seenPod(fmt.Sprint("p", i), "one", fmt.Sprint("u", i), uint64(i+1)))
	}
	v := New(Options[*corev1.Pod]{Name: "pods", Store: FromIndexer(indexer), Clock: clocktesting.NewFakePassiveClock(epoch), Indexes: byOwner})
	for i := range written {
		name := n - written/2 + i
		v.keep(seenPod(fmt.Sprint("p", name), "one", fmt.Sprint("u", name), uint64(1_000_000+i)), 0)
	}
	return v, indexer
}

func BenchmarkGet(b *testing.B) {
	for _, written := range []int{0, 1000} {
		b.Run(fmt.Sprintf("overlay=%d", written), func(b *testing.B) {
			v, _ := loaded(1000, written)
			key := keyOf("p999")
			b.ReportAllocs()
			for b.Loop() {
				if _, ok, err := v.Get(ctx, key); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

func BenchmarkBy(b *testing.B) {
	for _, written := range []int{0, 1, 1000} {
		b.Run(fmt.Sprintf("hits=1000/overlay=%d", written), func(b *testing.B) {
			v, _ := loaded(1000, written)
			b.ReportAllocs()
			for b.Loop() {
				if found, err := v.By(ctx, "owner", "one"); len(found) < 1000 || err != nil {
					b.Fatal(len(found), err)
				}
			}
		})
	}
	b.Run("hits=1000/the store alone", func(b *testing.B) {
		_, indexer := loaded(1000, 0)
		b.ReportAllocs()
		for b.Loop() {
			if found, err := indexer.ByIndex("owner", "one"); len(found) < 1000 || err != nil {
				b.Fatal(len(found), err)
			}
		}
	})
}

// BenchmarkKeepAndSweep is one reply kept and dropped again, beside entries that the
// store has not caught up with.
func BenchmarkKeepAndSweep(b *testing.B) {
	for _, waiting := range []int{0, 1000, maxEntries} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			v, indexer := loaded(1000, waiting)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p := seenPod("x", "one", "ux", uint64(2000+i))
				v.keep(p, 0)
				_ = indexer.Update(p)
				if err := v.Sweep(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("a burst of 20,000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, indexer := loaded(0, maxEntries)
			last := seenPod("last", "one", "ul", 2_000_000)
			_ = indexer.Update(last)
			if err := v.Sweep(ctx); err != nil || len(v.overlay.entries) > 0 {
				b.Fatal(len(v.overlay.entries), err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/maxEntries, "ns/entry")
	})
}
