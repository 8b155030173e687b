// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestOfTwoAgentRuntimesTheOlderHasTheWorkload(t *testing.T) {
	w := newWorld(t)
	w.box("box")
	older := w.runtime("older", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "box" })
	w.clock.Step(time.Minute)
	w.runtime("younger", func(a *api.AgentRuntime) {
		a.Spec.TargetRef = api.TargetReference{APIVersion: "agents.x-k8s.io/v1alpha1", Kind: "Sandbox", Name: "box"}
		a.Spec.Type = api.RuntimeTypeTool
	})
	w.settle()
	w.expectReady("older", api.ReasonConfigured)
	w.expectReady("younger", api.ReasonTargetTaken)
	if c := saidOf(w.status("younger"), api.ConditionConfigConflict); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, `"older"`) {
		t.Errorf("it says %+v", c)
	}
	if got := w.look("younger"); got != takenLimit {
		t.Errorf("it looks again after %v, want %v", got, takenLimit)
	}
	created := w.created["box"]
	w.writes = nil
	w.runtimes.expire("older")
	w.settle()
	if countOf(w.writes, "patch sandboxes") > 0 {
		t.Errorf("what the younger wants was taken off first: %v", w.writes)
	}
	w.expectReady("younger", api.ReasonConfigured)
	w.expectCreated("box", created+1)
	if got := w.boxes.get("box").Labels[api.LabelType]; got != "tool" || w.runtimes.get("older") != nil {
		t.Errorf("the type is %q; the older: %v", got, older)
	}
}

func TestAYoungerAgentRuntimeThatGoesLeavesTheWorkloadAlone(t *testing.T) {
	w := newWorld(t)
	w.box("box")
	w.runtime("older", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "box" })
	w.clock.Step(time.Minute)
	w.runtime("younger", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "box" })
	w.settle()
	w.writes = nil
	w.runtimes.expire("younger")
	w.settle()
	if countOf(w.writes, "apply")+countOf(w.writes, "patch sandboxes") != 0 || w.runtimes.get("younger") != nil {
		t.Errorf("writes: %v", w.writes)
	}
	w.expectReady("older", api.ReasonConfigured)
}

func TestAFieldThatAnotherManagerHasIsAConflictAndNoLoop(t *testing.T) {
	w := newWorld(t)
	running(w, "box")
	w.boxes.writeErr = apierrors.NewApplyConflict([]metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl"`, Field: ".metadata.labels.rossoctl.io/type",
	}}, "conflict")
	w.settle()
	w.expectReady("box", api.ReasonConfigApplyError)
	c := saidOf(w.status("box"), api.ConditionConfigConflict)
	if c.Status != metav1.ConditionTrue || c.Reason != api.ReasonFieldConflict || !strings.Contains(c.Message, "kubectl") || !strings.Contains(c.Message, "rossoctl.io/type") {
		t.Errorf("it says %+v", c)
	}
	w.writes, w.events = nil, nil
	w.settle()
	if len(w.writes)+len(w.events) > 0 {
		t.Errorf("it writes %v and tells %v again", w.writes, w.events)
	}
	w.boxes.writeErr = nil
	w.settle()
	w.expectReady("box", api.ReasonConfigured)
	if c := saidOf(w.status("box"), api.ConditionConfigConflict); c.Status != metav1.ConditionFalse {
		t.Errorf("it still says %+v", c)
	}
}

func TestStampsThatAreRefusedAreNotCountedAsRemoved(t *testing.T) {
	w := newWorld(t)
	running(w, "box")
	w.settle()
	w.boxes.edit("box", func(s *agents.Sandbox) { s.Spec.PodTemplate.Metadata.Annotations[api.AnnotationConfigHash] = "theirs" })
	w.boxes.writeErr = apierrors.NewApplyConflict([]metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl"`, Field: ".spec.podTemplate",
	}}, "conflict")
	w.settle()
	w.writes = nil
	for range 5 {
		w.settle()
	}
	if c := saidOf(w.status("box"), api.ConditionConfigConflict); c.Reason != api.ReasonFieldConflict || len(w.writes) > 0 {
		t.Errorf("it says %+v, and writes %v", c, w.writes)
	}
}

func TestAConflictIsNoLoopThoughRolloutsHaveToWait(t *testing.T) {
	w := newWorld(t)
	w.options.RestartJitter = time.Minute
	w.restart()
	running(w, "box")
	w.boxes.writeErr = apierrors.NewApplyConflict([]metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl"`, Field: ".metadata.labels.rossoctl.io/type",
	}}, "conflict")
	w.settle()
	w.expectReady("box", api.ReasonRolloutPending)
	w.clock.Step(time.Minute)
	w.settle()
	w.expectReady("box", api.ReasonConfigApplyError)
	w.writes = nil
	w.settle()
	if len(w.writes) > 0 {
		t.Errorf("it writes %v again", w.writes)
	}
	w.boxes.writeErr, w.maps.readErr = nil, errors.New("the server is busy")
	_ = w.pass("box") // says what cannot be read
	if countOf(w.writes, "apply") > 0 {
		t.Error("it was stamped with what the cache has")
	}
	w.maps.readErr = nil
	w.settle()
	w.expectReady("box", api.ReasonConfigured)
}

func TestStampsThatSomebodyKeepsRemovingAreNotFoughtOver(t *testing.T) {
	w := newWorld(t)
	running(w, "box")
	w.settle()
	w.writes = nil
	for range 20 {
		w.boxes.edit("box", func(s *agents.Sandbox) { s.Spec.PodTemplate.Metadata = agents.PodMetadata{} })
		w.settle()
	}
	if n := countOf(w.writes, "apply"); n > 12 {
		t.Errorf("%d applies", n)
	}
	if c := saidOf(w.status("box"), api.ConditionConfigConflict); c.Reason != api.ReasonStampsRemoved {
		t.Errorf("it says %+v", c)
	}
	w.clock.Step(time.Hour)
	w.settle()
	w.expectReady("box", api.ReasonConfigured)
}

func owner(kind string) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: extensions.GroupVersion.String(), Kind: kind, Name: "x", UID: "x", Controller: ptr.To(true)}}
	}
}

func TestASandboxOfAPoolIsConfiguredOnceAClaimHasIt(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.box("box", owner(extensions.SandboxWarmPoolKind))
		w.play()
		w.runtime("box")
		w.settle()
		w.expectReady("box", api.ReasonOwnedByWarmPool)
		if countOf(w.writes, "apply") != 0 {
			t.Errorf("it was written to: %v", w.writes)
		}
		w.boxes.edit("box", owner(extensions.SandboxClaimKind))
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		w.expectCreated("box", 2)
	})
}
