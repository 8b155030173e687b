// SPDX-License-Identifier: Apache-2.0

package consistent

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWhatCameOfAnUnknownStatusWriteIsTold(t *testing.T) {
	running := Patch{"status": map[string]any{"phase": "Running"}}
	labelled := Patch{"metadata": map[string]any{"labels": map[string]any{"owner": "two"}}}
	late := func(b *bench, subresource string, p Patch) {
		b.server.failNext(delayed)
		_, err := b.view.patch(ctx, b.get("old"), p, subresource)
		b.unknown(err)
	}
	lands := func(b *bench) {
		b.server.landLate()
		b.wire.relist(b.server.latest())
	}
	for name, c := range map[string]struct {
		happens func(b *bench)
		want    []string
	}{
		"it landed long after it was given up": {func(b *bench) {
			late(b, "status", running)
			lands(b)
		}, []string{"Running"}},
		"somebody who looks for another reason finds it": {func(b *bench) {
			late(b, "status", running)
			b.server.landLate()
			b.get("old")
		}, []string{"Running"}},
		"it cannot land any more, for somebody else was first": {func(b *bench) {
			late(b, "status", running)
			b.server.edit(keyOf("old"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
			lands(b)
		}, []string{"Failed"}},
		"it may still land": {func(b *bench) { late(b, "status", running) }, nil},
		"it is sent over and over": {func(b *bench) {
			for range 3 {
				late(b, "status", running)
			}
		}, nil},
		"what watchers do not sleep through is not told": {func(b *bench) {
			late(b, "", labelled)
			lands(b)
		}, nil},
		"its object is gone": {func(b *bench) {
			late(b, "status", running)
			b.server.remove(keyOf("old"))
			lands(b)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			expectTold(t, c.happens, func(now *corev1.Pod) string { return string(now.Status.Phase) }, c.want)
		})
	}
}

// expectTold holds what the view says of the objects that it tells to look at again, once
// it has been swept.
func expectTold(t *testing.T, happens func(*bench), what func(*corev1.Pod) string, want []string) {
	t.Helper()
	withInformer(t, func(b *bench) {
		var told []string
		b.view.lookAgain = func(now *corev1.Pod) { told = append(told, what(now)) }
		happens(b)
		b.sweep()
		b.sweep()
		if !slices.Equal(told, want) {
			b.Errorf("told of %q, want %q", told, want)
		}
	}, pod("old", "one"))
}
