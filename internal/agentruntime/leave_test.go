// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

func TestADeletionTakesEverythingOffAndReplacesThePod(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		running(w, "box")
		w.settle()
		w.boxes.edit("box", func(s *agents.Sandbox) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, "rossoctl.io/skills", "[]") })
		w.runtimes.expire("box")
		w.settle()
		if w.runtimes.get("box") != nil {
			t.Fatalf("it is still there; writes: %v", w.writes)
		}
		s := w.boxes.get("box")
		if len(s.Labels)+len(s.Spec.PodTemplate.Metadata.Labels)+len(s.Spec.PodTemplate.Metadata.Annotations) > 0 ||
			len(s.Annotations) != 1 || s.Annotations["rossoctl.io/skills"] != "[]" {
			t.Errorf("the Sandbox has %v, %v, %+v", s.Labels, s.Annotations, s.Spec.PodTemplate.Metadata)
		}
		w.expectCreated("box", 3)
	})
}

func TestADeletionInTheMiddleOfARolloutLeavesASandboxThatRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.configure("one")
		running(w, "box")
		w.settle()
		w.configure("two")
		if err := w.pass("box"); err != nil {
			t.Fatal(err)
		}
		w.runtimes.expire("box")
		w.settle()
		s := w.boxes.get("box")
		if w.runtimes.get("box") != nil || !s.Running() || len(s.Spec.PodTemplate.Metadata.Annotations) > 0 || w.pods.get("box") == nil {
			t.Errorf("the Sandbox is %+v", s)
		}
	})
}

func TestANewTargetFreesTheOldOne(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		running(w, "box")
		w.box("next")
		w.settle()
		w.runtimes.edit("box", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "next" })
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		if old := w.boxes.get("box"); len(old.Labels)+len(old.Annotations)+len(old.Spec.PodTemplate.Metadata.Annotations) > 0 {
			t.Errorf("the old target has %v, %v, %+v", old.Labels, old.Annotations, old.Spec.PodTemplate.Metadata)
		}
		w.expectCreated("box", 3)
		w.expectCreated("next", 2)
	})
}

func TestACrashOnTheWayToANewTargetLeavesNothingOnTheOldOne(t *testing.T) {
	for n := 1; n <= 12; n++ {
		w := newWorld(t)
		running(w, "box")
		w.box("next")
		w.settle()
		w.crashAt = len(w.writes) + n
		w.runtimes.edit("box", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "next" })
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		if old := w.boxes.get("box"); len(old.Labels)+len(old.Annotations) > 0 {
			t.Errorf("after a crash at write %d the old target has %v, %v", n, old.Labels, old.Annotations)
		}
		w.expectCreated("box", 3)
		w.expectCreated("next", 2)
	}
}

func TestACrashAfterTheFirstStampsIsRememberedWhenTheTargetChanges(t *testing.T) {
	for n := 1; n <= 5; n++ {
		w := newWorld(t)
		w.box("box", suspend)
		w.box("next")
		w.runtime("box")
		w.crashAt = n
		if err := w.pass("box"); err != nil {
			t.Fatal(err)
		}
		w.runtimes.edit("box", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "next" })
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		if old := w.boxes.get("box"); len(old.Labels)+len(old.Annotations)+len(old.Spec.PodTemplate.Metadata.Annotations) > 0 {
			t.Errorf("after a crash at write %d the old target has %v, %v", n, old.Labels, old.Annotations)
		}
	}
}

func TestAWorkloadThatIsHalfLeftIsTakenOverByAnother(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		running(w, "box")
		w.settle()
		w.asleep = true // the pod is waited for
		w.runtimes.expire("box")
		w.settle()
		if w.runtimes.get("box") == nil {
			t.Fatal("it did not wait")
		}
		w.runtime("heir", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "box" })
		w.asleep = false
		w.settle()
		w.expectReady("heir", api.ReasonConfigured)
		if w.runtimes.get("box") != nil {
			t.Error("the one that leaves is still there")
		}
	})
}

func TestNothingKeepsAnAgentRuntimeThatIsDeleted(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "sandboxes"}, "box", errors.New("a policy says so"))
	for name, test := range map[string]struct {
		trouble func(w *world)
		late    bool // it is tried for a while first
	}{
		"the workload is gone":        {func(w *world) { delete(w.boxes.objects, types.NamespacedName{Namespace: team, Name: "box"}) }, false},
		"its kind is gone":            {func(w *world) { w.boxes.unserved = true }, false},
		"the workload goes as well":   {func(w *world) { w.boxes.expire("box") }, false},
		"the workload may not change": {func(w *world) { w.boxes.writeErr = forbidden }, true},
		"its controller is down":      {func(w *world) { w.asleep = true }, true},
		"nobody says whether the stamps are off": {func(w *world) {
			w.boxes.edit("box", func(s *agents.Sandbox) {
				s.Labels, s.Annotations, s.Spec.PodTemplate.Metadata = nil, nil, agents.PodMetadata{}
			})
			w.boxes.readErr = forbidden
		}, true},
		"pods may not be deleted": {func(w *world) { w.pods.writeErr = forbidden }, true},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				running(w, "box")
				w.settle()
				test.trouble(w)
				w.runtimes.expire("box")
				for range 5 {
					_ = w.pass("box")
					if !w.asleep {
						w.play()
					}
				}
				if there := w.runtimes.get("box") != nil; there != test.late {
					t.Fatalf("it is there: %t; writes: %v", there, w.writes)
				}
				w.clock.Step(releaseLimit)
				for range 5 {
					_ = w.pass("box")
				}
				if w.runtimes.get("box") != nil {
					t.Error("it is still there")
				}
			})
		})
	}
}

func TestAProcessThatWasAwayDoesNotGiveUpAtTheFirstError(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		running(w, "box")
		w.settle()
		w.runtimes.expire("box")
		w.clock.Step(releaseLimit)
		w.boxes.writeErr = apierrors.NewInternalError(errors.New("not now"))
		_ = w.pass("box")
		w.boxes.writeErr = nil
		w.settle()
		if w.runtimes.get("box") != nil {
			t.Error("it is still there")
		}
		if s := w.boxes.get("box"); len(s.Labels)+len(s.Annotations)+len(s.Spec.PodTemplate.Metadata.Annotations) > 0 {
			t.Errorf("the Sandbox has %v, %v", s.Labels, s.Annotations)
		}
	})
}

func TestStampsThatMayStillLandAreNotLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.box("box")
		w.settle()
		// Of its own accord it would get its pod later.
		w.boxes.edit("box", func(s *agents.Sandbox) { s.Spec.PodTemplate.Spec.Hostname = "edited" })
		w.settle()
		w.runtime("box")
		w.boxes.delays = true
		if err := w.pass("box"); !consistent.Again(err) || w.boxes.late == nil {
			t.Fatalf("%v; writes: %v", err, w.writes)
		}
		w.boxes.delays = false
		w.runtimes.expire("box")
		w.settle()
		w.boxes.land()
		w.settle()
		if s := w.boxes.get("box"); w.runtimes.get("box") != nil || len(s.Labels)+len(s.Annotations)+len(s.Spec.PodTemplate.Metadata.Annotations) > 0 {
			t.Errorf("the Sandbox has %v, %v, %+v", s.Labels, s.Annotations, s.Spec.PodTemplate.Metadata)
		}
		w.expectCreated("box", 1)
	})
}

func TestLeavingAfterARolloutThatStalledTakesItsTurn(t *testing.T) {
	onBoth(t, func(_ *testing.T, w *world) {
		w.inTurn()
		w.box("next")
		w.stall()
		w.runtimes.edit("a", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "next" })
		w.settle()
		w.expectReady("a", api.ReasonRolloutPending)
		w.asleep = false
		w.settle()
		w.expectReady("a", api.ReasonConfigured)
		w.expectReady("b", api.ReasonConfigured)
	})
}

func TestLeavingThatStallsLetsOthersBegin(t *testing.T) {
	onBoth(t, func(_ *testing.T, w *world) {
		w.inTurn()
		w.box("next")
		w.settle()
		w.asleep = true
		w.runtimes.edit("a", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "next" })
		w.settle()
		w.expectReady("a", api.ReasonRollingOut)
		w.configure("two")
		w.settle()
		w.expectReady("b", api.ReasonRolloutPending)
		w.clock.Step(stallLimit)
		w.settle()
		w.expectReady("a", api.ReasonRolloutStalled)
		w.expectReady("b", api.ReasonRollingOut)
		w.asleep = false
		w.settle()
		w.expectReady("a", api.ReasonConfigured)
		w.expectReady("b", api.ReasonConfigured)
	})
}
