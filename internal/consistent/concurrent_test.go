// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWritersSeeTheirOwnWrites has many writers at once, each on a name of its own,
// while the informer delivers and the overlay is swept.
func TestWritersSeeTheirOwnWrites(t *testing.T) {
	withInformer(t, func(b *bench) {
		const writers, rounds = 8, 60
		done := make(chan struct{})
		var background, foreground sync.WaitGroup
		b.server.fault = everyFifth()
		background.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, c := range b.server.since(b.wire.sent) {
					b.wire.stream.send(eventOf(c))
					b.wire.sent = c.version
				}
				if err := b.view.Sweep(ctx); err != nil {
					t.Error(err)
				}
			}
		})
		for i := range writers {
			foreground.Go(func() { write(t, b.view, fmt.Sprint("w", i), rounds) })
		}
		foreground.Wait()
		close(done)
		background.Wait()
	})
}

// everyFifth loses every fifth reply.
func everyFifth() func(Verb, types.NamespacedName) fault {
	var mu sync.Mutex
	n := 0
	return func(Verb, types.NamespacedName) fault {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%5 == 0 {
			return lostReply
		}
		return fine
	}
}

// write creates, labels and deletes a pod again and again and checks each time that
// single reads and lists show it.
func write(t *testing.T, v *View[*corev1.Pod], name string, rounds int) {
	shown := func(wantN string) *corev1.Pod {
		p, ok, err := v.Get(ctx, keyOf(name))
		found, listErr := v.By(ctx, "owner", name)
		if err != nil || listErr != nil {
			t.Errorf("%s: %v, %v", name, err, listErr)
			return nil
		}
		if !ok || len(found) != 1 || p.Labels["n"] != wantN || found[0].Labels["n"] != wantN {
			t.Errorf("%s: shown %v, listed %v, want n=%s", name, ok, names(found), wantN)
			return nil
		}
		return p
	}
	for round := range rounds {
		n := fmt.Sprint(round)
		if _, err := v.Create(ctx, pod(name, name)); err != nil && !Again(err) {
			t.Errorf("create %s: %v", name, err)
			return
		}
		p := shown("")
		if p == nil {
			return
		}
		if _, err := v.Patch(ctx, p, label("n", n)); err != nil && !Again(err) {
			t.Errorf("patch %s: %v", name, err)
			return
		}
		if p = shown(n); p == nil {
			return
		}
		if err := v.Delete(ctx, p, Precondition{}); err != nil && !Again(err) {
			t.Errorf("delete %s: %v", name, err)
			return
		}
		if p, ok, err := v.Live(ctx, keyOf(name)); ok || err != nil {
			t.Errorf("%s is there after its delete: %v (%v)", name, p, err)
			return
		}
		if found, err := v.By(ctx, "owner", name); len(found) > 0 || err != nil {
			t.Errorf("%s lists %v after its delete (%v)", name, names(found), err)
			return
		}
	}
}
