// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"errors"
	"testing"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/kinds"
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
	w.r.live = liveConfig{w.r.views, lister{w}, w.r.listed}
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

func TestARolloutWhoseConfigurationCannotBeReadKeepsItsPlaceUntilItStalls(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.options.MaxConcurrentRestarts = 1
		w.restart()
		w.configure("one")
		running(w, "a")
		running(w, "b")
		w.settle()
		w.asleep = true
		w.configure("two")
		w.settle()
		w.expectReady("a", api.ReasonRollingOut)
		w.configure("three")
		unreadable := func(rolls bool) {
			t.Helper()
			w.maps.readErr = errors.New("the server is busy")
			if err := w.pass("a"); err == nil {
				t.Fatal("the pass is not repeated")
			}
			w.maps.readErr = nil
			w.expectReady("a", api.ReasonConfigHashError)
			if got := kinds.IsRolling(w.runtimes.get("a")); got != rolls {
				t.Errorf("others wait for it: %v, want %v (%+v)", got, rolls, saidOf(w.status("a"), api.ConditionRolloutComplete))
			}
		}
		unreadable(true)
		if err := w.pass("b"); err != nil {
			t.Fatal(err)
		}
		w.expectReady("b", api.ReasonRolloutPending)
		w.clock.Step(stallLimit)
		unreadable(false)
		w.asleep = false
		w.settle()
		w.expectReady("a", api.ReasonConfigured)
		w.expectReady("b", api.ReasonConfigured)
	})
}
