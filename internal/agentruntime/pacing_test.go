// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/confighash"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

// maxWrites is how many writes the rollout of one change takes at most for a workload of
// one pod: what waits, begins, moves and ends in the status, the stamps, which pods are
// outdated, and the delete.
const maxWrites = 8

func TestNoMoreThanTheLimitAreReplacedAtATime(t *testing.T) {
	for name, test := range map[string]struct{ inNamespace, inCluster, want int }{
		"of a namespace": {3, 0, 3}, "of the cluster": {0, 2, 2}, "both": {4, 2, 2}, "no limit": {0, 0, 12},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				const n = 12
				w.options.MaxConcurrentRestarts, w.options.MaxConcurrentRestartsInCluster = test.inNamespace, test.inCluster
				w.restart()
				w.configure("one")
				for i := range n {
					running(w, fmt.Sprintf("box-%02d", i))
				}
				w.settleWatching(func() {})
				w.configure("two")
				w.writes = nil
				most := 0
				w.settleWatching(func() {
					down := 0
					for _, a := range w.runtimes.all(team) {
						p := w.pods.get(a.Name)
						if p == nil || p.DeletionTimestamp != nil {
							down++
						}
					}
					most = max(most, down)
				})
				if most > test.want || most == 0 {
					t.Errorf("%d pods were down at a time, want at most %d", most, test.want)
				}
				for _, a := range w.runtimes.all(team) {
					w.expectReady(a.Name, api.ReasonConfigured)
				}
				if got := len(w.writes); got > maxWrites*n {
					t.Errorf("that took %d writes for %d AgentRuntimes", got, n)
				}
			})
		})
	}
}

// settleWatching is settle with the Sandboxes' controller acting, and look looking, after
// every pass.
func (w *world) settleWatching(look func()) {
	w.t.Helper()
	for range 200 {
		before := w.version
		for _, a := range w.runtimes.all(team) {
			if err := w.pass(a.Name); err != nil {
				w.t.Fatal(err)
			}
			look()
		}
		w.play()
		if w.version == before {
			return
		}
	}
	w.t.Fatal("this does not come to rest")
}

func TestARolloutOfWhichItIsNotKnownWhetherItBeganCounts(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.full()
		w.configure("two")
		rolling := w.runtimes.get("a").DeepCopy()
		w.runtimes.edit("a", func(a *api.AgentRuntime) { a.Status.RolloutStartTime = nil })
		w.runtimes.undecided = []consistent.Attempt[*api.AgentRuntime]{{Verb: consistent.VerbPatch, Intended: rolling, Base: w.runtimes.get("a")}}
		if err := w.pass("b"); err != nil {
			t.Fatal(err)
		}
		w.expectReady("b", api.ReasonRolloutPending)
		w.runtimes.undecided[0].Intended = w.runtimes.get("b") // one's own is no other's
		if err := w.pass("b"); err != nil {
			t.Fatal(err)
		}
		w.expectReady("b", api.ReasonRollingOut)
	})
}

func TestRolloutsWaitWhileTheyArePaused(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.configure("one")
		running(w, "box")
		w.settle()
		w.runtimes.edit("box", func(a *api.AgentRuntime) {
			metav1.SetMetaDataAnnotation(&a.ObjectMeta, api.AnnotationPaused, api.PausedTrue)
		})
		w.configure("two")
		w.writes = nil
		w.settle()
		w.expectReady("box", api.ReasonRolloutPaused)
		if n := len(w.writes) - countOf(w.writes, "status"); n != 0 {
			t.Errorf("writes: %v", w.writes)
		}
		w.runtimes.edit("box", func(a *api.AgentRuntime) { a.Annotations = nil })
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
		w.expectCreated("box", 3)
	})
}

func TestRolloutsOfOneChangeDoNotBeginAtOnce(t *testing.T) {
	w := newWorld(t)
	w.options.RestartJitter = time.Hour
	w.restart()
	for i := range 20 {
		running(w, fmt.Sprintf("box-%02d", i))
	}
	w.settle()
	replaced := func() int { return countOf(w.writes, "delete pods") }
	if replaced() != 0 {
		t.Fatalf("%d were replaced at once", replaced())
	}
	w.clock.Step(30 * time.Minute)
	w.settle()
	if n := replaced(); n == 0 || n == 20 {
		t.Errorf("%d of 20 were replaced in the first half", n)
	}
	w.clock.Step(30 * time.Minute)
	w.settle()
	if n := replaced(); n != 20 {
		t.Errorf("%d of 20 were replaced in the end", n)
	}
}

// inTurn has two AgentRuntimes, a and b, of which one may roll out at a time.
func (w *world) inTurn() {
	w.t.Helper()
	w.options.MaxConcurrentRestarts = 1
	w.restart()
	w.configure("one")
	running(w, "a")
	running(w, "b")
	w.settle()
}

// stall lets the rollout of a stall, for which b waits. Nobody but the controller acts.
func (w *world) stall() {
	w.t.Helper()
	w.configure("two")
	w.asleep = true
	w.settle()
	w.expectReady("b", api.ReasonRolloutPending)
	w.clock.Step(stallLimit)
	w.settle()
	w.expectReady("a", api.ReasonRolloutStalled)
	w.expectReady("b", api.ReasonRollingOut)
}

func TestARolloutThatStallsLetsOthersBegin(t *testing.T) {
	w := newWorld(t)
	w.inTurn()
	w.stall()
	w.asleep = false
	w.settle()
	w.expectReady("a", api.ReasonConfigured)
	w.expectReady("b", api.ReasonConfigured)
}

func TestPodsThatMayNotBeDeletedAreToldOfOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.configure("one")
		running(w, "box")
		w.settle()
		w.configure("two")
		w.pods.writeErr = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "box", errors.New("a policy says so"))
		pass := func() {
			_ = w.pass("box")
			w.play()
		}
		for range 6 {
			pass()
		}
		w.expectReady("box", api.ReasonConfigApplyError)
		w.writes, w.events = nil, nil
		for range 6 {
			pass()
		}
		if n := countOf(w.writes, "status"); n > 0 || len(w.events) > 0 {
			t.Errorf("that is said over and over: %v, %v", w.writes, w.events)
		}
		w.pods.writeErr = nil
		w.settle()
		w.expectReady("box", api.ReasonConfigured)
	})
}

// look is a pass that may write nothing and ask the server for nothing. It returns after
// what time the AgentRuntime is looked at again.
func (w *world) look(name string) time.Duration {
	w.t.Helper()
	written := len(w.writes)
	busy := errors.New("the server is busy")
	w.runtimes.readErr, w.boxes.readErr, w.pods.readErr, w.maps.readErr = busy, busy, busy, busy
	result, err := w.r.Reconcile(w.t.Context(), control.Request(team, name))
	w.runtimes.readErr, w.boxes.readErr, w.pods.readErr, w.maps.readErr = nil, nil, nil, nil
	if err != nil || len(w.writes) != written {
		w.t.Errorf("%s: %v; writes: %v", name, err, w.writes[written:])
	}
	return result.RequeueAfter
}

// full lets a roll out, and nobody else begin. Nobody but the controller acts.
func (w *world) full() {
	w.t.Helper()
	w.inTurn()
	w.box("next")
	w.asleep = true
	w.runtimes.edit("a", func(a *api.AgentRuntime) { a.Spec.MTLSMode = api.MTLSDisabled })
	w.settle()
	w.expectReady("a", api.ReasonRollingOut)
}

func TestWhoWaitsForOthersLooksAgainAlthoughNobodyWakesIt(t *testing.T) {
	for name, wait := range map[string]func(w *world){
		"to begin":            func(w *world) { w.configure("two") },
		"to leave its target": func(w *world) { w.runtimes.edit("b", func(b *api.AgentRuntime) { b.Spec.TargetRef.Name = "next" }) },
		"to go":               func(w *world) { w.runtimes.expire("b") },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				w.full()
				wait(w)
				if err := w.pass("b"); err != nil {
					t.Fatal(err)
				}
				w.expectReady("b", api.ReasonRolloutPending)
				if got := w.look("b"); got != waitLimit {
					t.Errorf("it looks again after %v, want %v", got, waitLimit)
				}
				w.runtimes.edit("a", func(a *api.AgentRuntime) { a.Status.RolloutStartTime = nil })
				w.clock.Step(waitLimit)
				if err := w.pass("b"); err != nil {
					t.Fatal(err)
				}
				w.expectReady("b", api.ReasonRollingOut)
			})
		})
	}
}

func TestWhoWaitsToGoDoesNotWaitBeyondItsTime(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.full()
		w.runtimes.expire("b")
		w.clock.Step(releaseLimit - waitLimit/2)
		if err := w.pass("b"); err != nil {
			t.Fatal(err)
		}
		if got := w.look("b"); got != waitLimit/2 {
			t.Errorf("it looks again after %v, want %v", got, waitLimit/2)
		}
	})
}

// counted counts how often the configuration is read.
type counted struct {
	confighash.Source
	reads *int
}

// Defaults implements confighash.Source.
func (c counted) Defaults(ctx context.Context, namespace string) ([]*corev1.ConfigMap, error) {
	*c.reads++
	return c.Source.Defaults(ctx, namespace)
}

func TestWhoWaitsForOthersDoesNotAskTheServerForTheConfiguration(t *testing.T) {
	w := newWorld(t)
	w.options.MaxConcurrentRestarts = 1
	w.restart()
	w.configure("one")
	const n = 5
	for i := range n {
		running(w, fmt.Sprintf("box-%d", i))
	}
	w.settle()
	w.configure("two")
	reads := 0
	w.r.live = counted{w.r.live, &reads}
	w.asleep = true
	w.settle()
	w.settle()
	w.expectReady("box-4", api.ReasonRolloutPending)
	if reads != 1 {
		t.Errorf("the configuration was read %d times for one that may begin", reads)
	}
	w.asleep = false
	w.settle()
	for i := range n {
		w.expectReady(fmt.Sprintf("box-%d", i), api.ReasonConfigured)
	}
	// Once to begin, and once more with the stamps where that is another pass.
	if reads > 2*n {
		t.Errorf("the configuration was read %d times for %d rollouts", reads, n)
	}
}
