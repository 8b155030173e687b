// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A relist shows the informer's handlers what was before and what is now. Whoever acted on
// what the view showed in between has to look again.
func TestWhatTheInformerSkippedIsLookedAtAgain(t *testing.T) {
	mark := func(b *bench, n int) { b.patch(b.get("old"), label("n", string(rune('0'+n)))) }
	foreign := func(b *bench, owner string) {
		b.server.edit(keyOf("old"), func(p *corev1.Pod) { p.Labels = map[string]string{"owner": owner} })
	}
	live := func(b *bench) {
		if _, ok, err := b.view.Live(ctx, keyOf("old")); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
	relist := func(b *bench) { b.wire.relist(b.server.latest()) }
	for name, c := range map[string]struct {
		happens func(b *bench)
		want    []string
	}{
		"an own write that somebody undid": {func(b *bench) {
			mark(b, 1)
			foreign(b, "one")
			relist(b)
		}, []string{"one"}},
		"what a read of the server found": {func(b *bench) {
			foreign(b, "two")
			live(b)
			foreign(b, "one")
			relist(b)
		}, []string{"one"}},
		"what was read between two own writes, the last of which is listed": {func(b *bench) {
			mark(b, 1)
			foreign(b, "two")
			live(b)
			mark(b, 2)
			relist(b)
		}, []string{"two"}},
		"nothing, for the own write is listed": {func(b *bench) {
			mark(b, 1)
			relist(b)
		}, nil},
		"nothing, for every event comes": {func(b *bench) {
			mark(b, 1)
			foreign(b, "two")
			live(b)
			mark(b, 2)
			foreign(b, "one")
			b.wire.deliverAll()
		}, nil},
		"nothing, for the events came before": {func(b *bench) {
			mark(b, 1)
			b.wire.deliverAll()
			foreign(b, "two")
			relist(b)
		}, nil},
		"nothing that lives": {func(b *bench) {
			mark(b, 1)
			b.server.remove(keyOf("old"))
			relist(b)
		}, nil},
		"all that was shown, for the store went back in time": {func(b *bench) {
			mark(b, 1)
			b.sweep()
			b.wire.relist(b.server.latest() - 2)
			b.sweep()
			b.wire.deliverAll()
		}, []string{"one"}},
	} {
		t.Run(name, func(t *testing.T) {
			expectTold(t, c.happens, func(now *corev1.Pod) string { return now.Labels["owner"] }, c.want)
		})
	}
}

// What is told may be over before it is: the event of that came first, and nobody is told
// of it again.
func TestWhatIsToldAndChangesMeanwhileIsToldAnew(t *testing.T) {
	withInformer(t, func(b *bench) {
		b.patch(b.get("old"), label("n", "1"))
		b.server.edit(keyOf("old"), func(p *corev1.Pod) { p.Labels = map[string]string{"owner": "one"} })
		b.wire.relist(b.server.latest())
		var told []string
		b.view.lookAgain = func(now *corev1.Pod) {
			told = append(told, now.Labels["owner"])
			if len(told) == 1 {
				b.server.edit(keyOf("old"), func(p *corev1.Pod) { p.Labels = map[string]string{"owner": "two"} })
				b.wire.deliverAll()
			}
		}
		b.view.vanished = func(was *corev1.Pod) { told = append(told, "not "+was.Labels["owner"]) }
		b.sweep()
		if want := []string{"one", "not one", "two"}; !slices.Equal(told, want) {
			b.Errorf("told of %q, want %q", told, want)
		}
	}, pod("old", "one"))
}
