// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// onBoth runs a test with a Sandbox's controller that computes revisions and with one
// that does not.
func onBoth(t *testing.T, test func(t *testing.T, w *world)) {
	for name, revisions := range map[string]bool{"with revisions": true, "without revisions": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.revisions = revisions
			test(t, w)
		})
	}
}

// running is a Sandbox whose pod runs, and then an AgentRuntime for it.
func running(w *world, name string) {
	w.box(name)
	w.play()
	w.runtime(name)
}

func suspend(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeSuspended }

func resume(s *agents.Sandbox) { s.Spec.OperatingMode = agents.OperatingModeRunning }

func TestAPodThatIsOlderThanTheFirstStampsIsReplaced(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		running(w, "box")
		before := w.pods.get("box").UID
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		w.expectCreated("box", 2)
		if w.pods.get("box").UID == before {
			t.Error("the pod is still the one that was made without the stamps")
		}
	})
}

func TestAPodThatWasMadeWithTheStampsIsLeft(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.runtime("box")
		w.settle()
		w.expectReady("box", api.ReasonTargetNotFound)
		hash, err := w.r.hash(t.Context(), team)
		if err != nil {
			t.Fatal(err)
		}
		w.box("box", func(s *agents.Sandbox) {
			s.Labels = map[string]string{api.LabelType: "agent"}
			s.Spec.PodTemplate.Metadata = agents.PodMetadata{
				Labels:      map[string]string{api.LabelType: "agent"},
				Annotations: map[string]string{api.AnnotationConfigHash: hash, api.AnnotationMTLSMode: "permissive"},
			}
		})
		w.play()
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		w.expectCreated("box", 1)
	})
}

func TestACrashAfterAnyWriteLosesNoRestartAndMakesNoSecond(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		revisions := w.revisions
		scenario := func(t *testing.T, crashAt int) (*world, int) {
			w := newWorld(t)
			w.revisions = revisions
			w.configure("one")
			running(w, "box")
			w.settle()
			w.expectCreated("box", 2)
			w.writes = nil
			w.crashAt = crashAt
			w.configure("two")
			w.settle()
			return w, len(w.writes)
		}
		_, writes := scenario(t, 0)
		if writes < 4 {
			t.Fatalf("a rollout takes %d writes", writes)
		}
		for n := 1; n <= writes; n++ {
			w, _ := scenario(t, n)
			w.expectReady("box", api.ReasonConfigured)
			w.expectCreated("box", 3)
			if s := w.status("box"); s.AppliedConfigHash != s.DesiredConfigHash || s.ConfiguredPods != 1 || s.RolloutStartTime != nil {
				t.Errorf("after a crash at write %d the status is %+v", n, s)
			}
		}
	})
}

func TestARestartWaitsUntilTheSandboxesControllerHasSeenTheStamps(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.configure("one")
		running(w, "box")
		w.settle()
		w.writes, w.asleep = nil, true
		w.configure("two")
		w.settle()
		if slices.ContainsFunc(w.writes, func(s string) bool { return strings.HasPrefix(s, "delete") }) {
			t.Fatalf("a pod was deleted that would come back as it was: %v", w.writes)
		}
		w.expectReady("box", api.ReasonRollingOut)
		w.asleep = false
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		w.expectCreated("box", 3)
	})
}

func TestAPodThatTakesLongToStopIsNeitherDeletedAgainNorTakenForTheNew(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.configure("one")
		running(w, "box")
		w.settle()
		w.writes = nil
		w.configure("two")
		for range 6 {
			for range 3 {
				if err := w.pass("box"); err != nil {
					t.Fatal(err)
				}
			}
			w.playSandbox(w.boxes.get("box")) // the pod does not end
		}
		w.expectReady("box", api.ReasonRollingOut)
		if s := w.status("box"); s.ConfiguredPods != 0 || s.Pods.Ready != 0 {
			t.Errorf("the pod that is terminating is counted: %+v", s.Pods)
		}
		if n := countOf(w.writes, "delete pods"); n != 1 {
			t.Errorf("it was deleted %d times", n)
		}
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		w.expectCreated("box", 3)
	})
}

func countOf(writes []string, prefix string) int {
	n := 0
	for _, s := range writes {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

func TestAPausedSandboxStaysPausedAndItsNextPodIsRight(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.configure("one")
		running(w, "box")
		w.settle()
		w.boxes.edit("box", suspend)
		w.settle()
		w.configure("two")
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		if s := w.boxes.get("box"); s.Running() || s.Spec.Replicas != nil {
			t.Errorf("its spec is %+v", s.Spec)
		}
		w.boxes.edit("box", resume)
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		w.expectCreated("box", 3)
	})
}

func TestAChangeOfTypeOrModeReplacesThePod(t *testing.T) {
	for name, change := range map[string]func(*api.AgentRuntime){
		"mtlsMode": func(a *api.AgentRuntime) { a.Spec.MTLSMode = api.MTLSStrict },
		"type":     func(a *api.AgentRuntime) { a.Spec.Type = api.RuntimeTypeTool },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(_ *testing.T, w *world) {
				running(w, "box")
				w.settle()
				w.runtimes.edit("box", change)
				w.settle()
				w.expectReady("box", api.ReasonConfigured)
				w.expectCreated("box", 3)
			})
		})
	}
}

func TestReadyIsFalseFromBeforeThePodIsReplacedUntilTheNextIsReady(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.configure("one")
		running(w, "box")
		w.settle()
		old := w.pods.get("box").UID
		w.configure("two")
		w.writes = nil
		w.onWrite = func(what string) {
			p := w.pods.get("box")
			if s := w.status("box"); p != nil && p.UID == old && s.Phase == api.PhaseActive {
				t.Errorf("after %q it is %s, and the old pod is there: %v", what, s.Phase, w.writes)
			}
		}
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		if countOf(w.writes, "delete pods box") != 1 {
			t.Errorf("the pod was not replaced once: %v", w.writes)
		}
	})
}

func TestReadyWaitsUntilTheNewPodIsReady(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.unready = true
		running(w, "box")
		w.settle()
		w.expectReady("box", api.ReasonRollingOut)
		if s := w.status("box"); s.Pods.Updated != 1 || s.Pods.Ready != 0 || s.ConfiguredPods != 1 {
			t.Errorf("the status is %+v, %+v", s, s.Pods)
		}
		w.pods.edit("box", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		})
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		w.pods.edit("box", func(p *corev1.Pod) { p.Status.Conditions = nil })
		w.settle()
		w.expectReady("box", api.ReasonPodsNotReady)
		w.expectCreated("box", 2)
	})
}

func TestARepeatWritesNothingAndTellsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		running(w, "box")
		w.runtime("nothing")
		w.settle()
		if n := countOf(w.events, "box "+api.ReasonConfigured); n != 1 {
			t.Errorf("%d events tell that it is configured", n)
		}
		if n := countOf(w.events, "nothing "+api.ReasonTargetNotFound); n != 1 {
			t.Errorf("%d events tell that the target was not found", n)
		}
		w.writes, w.events = nil, nil
		w.clock.Step(time.Hour)
		w.restart()
		w.settle()
		if len(w.writes)+len(w.events) > 0 {
			t.Errorf("writes: %v, events: %v", w.writes, w.events)
		}
	})
}

func TestOnlyATransitionIsTold(t *testing.T) {
	said := func(reason, message string) api.AgentRuntimeStatus {
		c := conditions{now: start}
		c.set(api.ConditionReady, no(reason, message))
		c.set(api.ConditionTargetResolved, no(api.ReasonTargetNotFound, message))
		return api.AgentRuntimeStatus{Conditions: c.list}
	}
	if told := news(api.AgentRuntimeStatus{}, said(api.ReasonRolloutStalled, "one")); len(told) != 2 {
		t.Errorf("of what is new %v is told", told)
	}
	if told := news(said(api.ReasonRolloutStalled, "one"), said(api.ReasonRolloutStalled, "two")); len(told) != 0 {
		t.Errorf("the same is told in other words: %v", told)
	}
}
