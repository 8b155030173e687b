// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// maxWrites is how many writes the rollout of one change takes at most for a workload of
// one pod: what waits, begins, moves and ends in the status, the stamps, which pods are
// outdated, and the delete.
const maxWrites = 8

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
func resume(s *agents.Sandbox)  { s.Spec.OperatingMode = agents.OperatingModeRunning }

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
			onBoth(t, func(t *testing.T, w *world) {
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

func TestAConfigMapWakesExactlyThoseItIsPartOf(t *testing.T) {
	w := newWorld(t)
	w.runtime("a")
	w.runtime("b")
	w.runtimes.put(&api.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "c"}})
	all := []string{"team/a", "team/b", "other/c"}
	for name, test := range map[string]struct {
		namespace, configMap string
		labels               map[string]string
		want                 []string
	}{
		"the cluster's defaults wake all":                                   {operatorNamespace, api.ConfigMapPlatform, nil, all},
		"so do its feature gates":                                           {operatorNamespace, api.ConfigMapFeatureGates, nil, all},
		"a namespace's defaults wake those of it":                           {team, "any", map[string]string{api.LabelDefaults: "true"}, all[:2]},
		"its runtime configuration does, which carries no label":            {team, api.ConfigMapAuthBridgeRuntime, nil, all[:2]},
		"so does that of its helpers":                                       {"other", api.ConfigMapSPIFFEHelper, nil, all[2:]},
		"a ConfigMap of a cluster's name in another namespace wakes nobody": {team, api.ConfigMapPlatform, nil, nil},
		"any other wakes nobody":                                            {team, "any", map[string]string{api.LabelDefaults: "false"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Name: test.configMap, UID: "m", ResourceVersion: "1", Labels: test.labels}}
			after := before.DeepCopy()
			after.ResourceVersion, after.Data = "2", map[string]string{"k": "v"}
			for what, got := range map[string][]reconcile.Request{
				"an edit": w.r.onConfigMap(before, after), "its creation": w.r.onConfigMap(nil, after), "its end": w.r.onConfigMap(after, nil),
			} {
				if !slices.Equal(names(got), test.want) {
					t.Errorf("%s wakes %v, want %v", what, names(got), test.want)
				}
			}
			after.Data = nil
			if got := w.r.onConfigMap(before, after); len(got) > 0 {
				t.Errorf("an edit that changes nothing wakes %v", names(got))
			}
		})
	}
	labelled := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "any", ResourceVersion: "1", Labels: map[string]string{api.LabelDefaults: "true"}}}
	bare := labelled.DeepCopy()
	bare.Labels, bare.ResourceVersion = nil, "2"
	if got := names(w.r.onConfigMap(labelled, bare)); !slices.Equal(got, all[:2]) {
		t.Errorf("a label that is taken off wakes %v", got)
	}
}

func names(requests []reconcile.Request) []string {
	var all []string
	for _, r := range requests {
		all = append(all, r.String())
	}
	return all
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

func TestAWorkloadWakesItsAgentRuntimeWhateverVersionThatNames(t *testing.T) {
	w := newWorld(t)
	w.runtime("old", func(a *api.AgentRuntime) {
		a.Spec.TargetRef = api.TargetReference{APIVersion: "agents.x-k8s.io/v1alpha1", Kind: "Sandbox", Name: "box"}
	})
	w.runtime("new", func(a *api.AgentRuntime) { a.Spec.TargetRef.Name = "box" })
	w.runtime("other")
	s := w.box("box")
	for _, watch := range w.r.Watches() {
		if _, ok := watch.Object.(*agents.Sandbox); ok {
			if got := names(watch.Enqueue(nil, s)); !slices.Equal(got, []string{"team/new", "team/old"}) {
				t.Errorf("it wakes %v", got)
			}
			return
		}
	}
	t.Error("Sandboxes are not watched")
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
		"pods may not be deleted":     {func(w *world) { w.pods.writeErr = forbidden }, true},
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

func TestReadyIsFalseFromBeforeThePodIsReplacedUntilTheNextIsReady(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.configure("one")
		running(w, "box")
		w.settle()
		old := w.pods.get("box").UID
		w.configure("two")
		for range 30 {
			version := w.version
			if err := w.pass("box"); err != nil {
				t.Fatal(err)
			}
			s, p := w.status("box"), w.pods.get("box")
			if p != nil && p.UID == old && (s.Phase == api.PhaseActive || s.ConfiguredPods > 0) && s.DesiredConfigHash == s.AppliedConfigHash {
				t.Fatalf("it is %s with %d configured pods, and the old pod is there", s.Phase, s.ConfiguredPods)
			}
			w.play()
			if w.version == version {
				break
			}
		}
		w.expectReady("box", api.ReasonConfigured)
		first := slices.Index(w.writes, "delete pods box")
		if before := slices.Index(w.writes, "status agentruntimes box"); first < 0 || before < 0 || before > first {
			t.Errorf("the status came too late: %v", w.writes)
		}
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

func TestADeploymentIsStampedAndReplacesItsPodsItself(t *testing.T) {
	w := newWorld(t)
	web := w.webs.put(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)}, Status: appsv1.DeploymentStatus{ObservedGeneration: 1}})
	w.rollDeployment(web.Name)
	w.runtime("web", func(a *api.AgentRuntime) {
		a.Spec.TargetRef = api.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	})
	w.settle()
	w.expectReady("web", api.ReasonRollingOut)
	if s := w.status("web"); s.ConfiguredPods != 0 || s.RolloutStartTime == nil {
		t.Errorf("the status is %+v", s)
	}
	w.rollDeployment(web.Name)
	w.settle()
	w.expectReady("web", api.ReasonConfigured)
	if countOf(w.writes, "delete") != 0 {
		t.Errorf("pods were deleted: %v", w.writes)
	}
	w.runtimes.expire("web")
	w.settle()
	if d := w.webs.get("web"); w.runtimes.get("web") != nil || len(d.Labels)+len(d.Annotations)+len(d.Spec.Template.Labels)+len(d.Spec.Template.Annotations) > 0 {
		t.Errorf("the Deployment has %v, %v, %v", d.Labels, d.Annotations, d.Spec.Template.ObjectMeta)
	}
}

// rollDeployment plays the Deployment's controller.
func (w *world) rollDeployment(name string) {
	d := w.webs.get(name).DeepCopy()
	d.Status.ObservedGeneration = d.Generation
	d = w.webs.put(d)
	for _, p := range w.pods.all(team) {
		delete(w.pods.objects, client.ObjectKeyFromObject(p))
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: team, Name: fmt.Sprintf("%s-%d", name, d.Generation),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: d.UID, Controller: ptr.To(true)}},
	}}
	set.Spec.Template.ObjectMeta = d.Spec.Template.ObjectMeta
	w.sets.put(set)
	w.pods.put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: set.Name + "-x", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	})
}

func TestWhoWaitsIsWokenWhenAnotherIsDone(t *testing.T) {
	w := newWorld(t)
	waiting := func(a *api.AgentRuntime) {
		a.Status.Conditions = []metav1.Condition{{Type: api.ConditionRolloutComplete, Status: metav1.ConditionFalse, Reason: api.ReasonRolloutPending}}
	}
	w.runtime("waits", waiting)
	rolling := w.runtime("rolls", func(a *api.AgentRuntime) { a.Status.RolloutStartTime = ptr.To(metav1.NewTime(start)) })
	done := rolling.DeepCopy()
	done.ResourceVersion, done.Status.RolloutStartTime = "99", nil
	if got := names(w.r.onRuntime(rolling, done)); !slices.Contains(got, control.Request(team, "waits").String()) {
		t.Errorf("one that is done wakes %v", got)
	}
	if got := names(w.r.onRuntime(rolling, nil)); !slices.Contains(got, control.Request(team, "waits").String()) {
		t.Errorf("one that is gone wakes %v", got)
	}
	now := done.DeepCopy()
	now.ResourceVersion = "100"
	waiting(now)
	if got := names(w.r.onRuntime(done, now)); !slices.Contains(got, control.Request(team, "rolls").String()) {
		t.Errorf("one that begins to wait does not look again: %v", got)
	}
	echo := done.DeepCopy()
	echo.ResourceVersion, echo.Status.ConfiguredPods = "101", 7
	if got := w.r.onRuntime(done, echo); len(got) > 0 {
		t.Errorf("a status wakes %v", names(got))
	}
}

func TestARolloutThatStallsLetsOthersBegin(t *testing.T) {
	w := newWorld(t)
	w.options.MaxConcurrentRestarts = 1
	w.restart()
	w.configure("one")
	running(w, "a")
	running(w, "b")
	w.settle()
	w.configure("two")
	w.asleep = true
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
}
