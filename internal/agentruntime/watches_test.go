// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

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

func TestOneThatIsDoneWakesAFewOfItsNamespaceAndTheFirstOfEveryOther(t *testing.T) {
	w := newWorld(t)
	waiting := func(namespace, name string, since time.Time) {
		a := &api.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		a.Status.Conditions = []metav1.Condition{{
			Type: api.ConditionRolloutComplete, Status: metav1.ConditionFalse, Reason: api.ReasonRolloutPending, LastTransitionTime: metav1.NewTime(since),
		}}
		w.runtimes.put(a)
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		waiting(team, name, start)
		waiting("other", name, start)
	}
	var got []string
	for _, a := range w.r.next(team) {
		got = append(got, a.Namespace+"/"+a.Name)
	}
	if want := []string{"team/a", "team/b", "team/c", "other/a"}; !slices.Equal(got, want) {
		t.Errorf("it wakes %v, want %v", got, want)
	}
	w.options.RestartJitter = time.Minute
	w.restart()
	w.clock.Step(time.Hour)
	waiting(team, "a", w.clock.Now().Add(time.Hour)) // not due
	got = nil
	for _, a := range w.r.next(team) {
		got = append(got, a.Namespace+"/"+a.Name)
	}
	if want := []string{"team/b", "team/c", "team/d", "other/a"}; !slices.Equal(got, want) {
		t.Errorf("it wakes %v, want %v: one that may not begin yet takes another's turn", got, want)
	}
}

func TestThoseThatAreDoneAtOnceWakeAsManyAsThereIsRoomFor(t *testing.T) {
	for name, test := range map[string]struct {
		inNamespace, inCluster, rolling int
		own, others                     int
	}{
		"the whole limit, and two more":               {5, 0, 0, 7, 5},
		"what is left of it, and two more":            {5, 0, 3, 4, 5},
		"the least of two limits":                     {6, 4, 1, 5, 3},
		"the cluster's alone":                         {0, 4, 0, 6, 4},
		"one and two more where it seems to be full":  {3, 0, 4, 3, 3},
		"one and two more where there is no limit":    {0, 0, 0, 3, 1},
		"one of each other where the cluster is full": {5, 2, 2, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.options.MaxConcurrentRestarts, w.options.MaxConcurrentRestartsInCluster = test.inNamespace, test.inCluster
			w.restart()
			for i := range 20 {
				for _, namespace := range []string{team, "other"} {
					a := &api.AgentRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("waits-%02d", i)}}
					a.Status.Conditions = []metav1.Condition{{Type: api.ConditionRolloutComplete, Status: metav1.ConditionFalse, Reason: api.ReasonRolloutPending}}
					w.runtimes.put(a)
				}
			}
			for i := range test.rolling {
				w.runtime(fmt.Sprintf("rolls-%d", i), func(a *api.AgentRuntime) { a.Status.RolloutStartTime = ptr.To(metav1.NewTime(start)) })
			}
			woken := map[string]int{}
			for _, a := range w.r.next(team) {
				woken[a.Namespace]++
			}
			if woken[team] != test.own || woken["other"] != test.others {
				t.Errorf("it wakes %v, want %d of its own namespace and %d of the other", woken, test.own, test.others)
			}
		})
	}
}
