// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"errors"
	"testing"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
)

func TestAConfigurationThatCannotBeReadChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.configure("one")
		running(w, "box")
		w.settle()
		w.writes = nil
		w.maps.readErr = errors.New("the server is busy")
		w.configure("two")
		if err := w.pass("box"); err == nil {
			t.Error("the pass is not repeated")
		}
		if n := len(w.writes) - countOf(w.writes, "status"); n != 0 {
			t.Errorf("it was changed: %v", w.writes)
		}
		w.expectReady("box", api.ReasonConfigHashError)
		w.maps.readErr = nil
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		w.expectCreated("box", 3)
	})
}

func TestAConfigMapThatOnlyTheCacheMissesIsPartOfTheHash(t *testing.T) {
	w := newWorld(t)
	w.configure("one")
	hidden := &hiding{table: w.maps}
	w.r.views.ConfigMaps = hidden
	w.r.cached = cachedConfig{w.r.views}
	w.r.live = liveConfig{w.r.views, lister{w}}
	running(w, "box")
	w.settle()
	full, err := w.r.hash(t.Context(), team)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.boxes.get("box").Spec.PodTemplate.Metadata.Annotations[api.AnnotationConfigHash]; got != full {
		t.Errorf("the Sandbox has %s, want %s: the cache was believed", got, full)
	}
	w.expectCreated("box", 2)
}
