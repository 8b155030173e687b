// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

func TestOneThatWaitsNoMoreWithoutHavingBegunPassesItsTurnOn(t *testing.T) {
	w := newWorld(t)
	says := func(reason string) func(*api.AgentRuntime) {
		return func(a *api.AgentRuntime) {
			a.Status.Conditions = []metav1.Condition{{Type: api.ConditionRolloutComplete, Status: metav1.ConditionFalse, Reason: reason}}
		}
	}
	w.runtime("next", says(api.ReasonRolloutPending))
	waited := w.runtime("waited", says(api.ReasonRolloutPending))
	after := func(edit func(*api.AgentRuntime)) client.Object {
		a := waited.DeepCopy()
		a.ResourceVersion = "99"
		edit(a)
		return a
	}
	for name, test := range map[string]struct {
		after client.Object
		want  bool
	}{
		"paused":                  {after(says(api.ReasonRolloutPaused)), true},
		"with nothing to replace": {after(says(api.ReasonRolledOut)), true},
		"gone":                    {nil, true},
		"that begins": {after(func(a *api.AgentRuntime) {
			says(api.ReasonRollingOut)(a)
			a.Status.RolloutStartTime = ptr.To(metav1.NewTime(start))
		}), false},
		"that goes on waiting": {after(func(a *api.AgentRuntime) { a.Status.ConfiguredPods = 7 }), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := names(w.r.onRuntime(waited, test.after))
			if woken := slices.Contains(got, control.Request(team, "next").String()); woken != test.want {
				t.Errorf("it wakes %v", got)
			}
		})
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

// of is an AgentRuntime for a workload of another kind than Sandbox.
func (w *world) of(kind, name string) {
	w.runtime(name, func(a *api.AgentRuntime) {
		a.Spec.TargetRef = api.TargetReference{APIVersion: "apps/v1", Kind: kind, Name: name}
	})
}

func ownedBy(kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
}

func TestAReplicaSetThatChangesHandsWakesThoseOfBothDeployments(t *testing.T) {
	w := newWorld(t)
	w.of("Deployment", "web")
	w.of("Deployment", "next")
	set := func(version string, uid types.UID, owner []metav1.OwnerReference) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "web-1", UID: uid, ResourceVersion: version, OwnerReferences: owner}}
	}
	first := ownedBy("Deployment", "web", "first")
	was, free := set("1", "set", first), set("1", "set", nil)
	for name, test := range map[string]struct {
		before, after client.Object
		want          []string
	}{
		"that is new":                    {nil, was, []string{"team/web"}},
		"that is gone":                   {was, nil, []string{"team/web"}},
		"that is looked at once more":    {was, was, []string{"team/web"}},
		"as it was":                      {was, set("2", "set", first), nil},
		"of another Deployment":          {was, set("2", "set", ownedBy("Deployment", "next", "second")), []string{"team/web", "team/next"}},
		"of the next one of the name":    {was, set("2", "set", ownedBy("Deployment", "web", "second")), []string{"team/web"}},
		"that is given up":               {was, set("2", "set", nil), []string{"team/web"}},
		"that is adopted":                {free, set("2", "set", first), []string{"team/web"}},
		"that was made anew":             {was, set("2", "other", first), []string{"team/web"}},
		"that was nobody's and stays so": {free, set("2", "set", nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := names(w.r.onReplicaSet(test.before, test.after)); !slices.Equal(got, test.want) {
				t.Errorf("it wakes %v, want %v", got, test.want)
			}
		})
	}
}

func TestAPodWakesThoseOfBothItsWorkloadsIfWhatCountsOfItChanges(t *testing.T) {
	w := newWorld(t)
	w.of("Deployment", "web")
	w.of("Deployment", "next")
	w.of("StatefulSet", "db")
	for _, name := range []string{"web", "next"} {
		w.sets.put(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, UID: types.UID(name), OwnerReferences: ownedBy("Deployment", name, "d")}})
	}
	web, next, db := ownedBy("ReplicaSet", "web", "web"), ownedBy("ReplicaSet", "next", "next"), ownedBy("StatefulSet", "db", "db")
	retype := func(p *corev1.Pod) { p.Labels = map[string]string{api.LabelType: "tool"} }
	for name, test := range map[string]struct {
		owner []metav1.OwnerReference
		edit  func(*corev1.Pod)
		want  []string
	}{
		"that nothing happens to":              {web, func(*corev1.Pod) {}, nil},
		"that another ReplicaSet adopts":       {web, func(p *corev1.Pod) { p.OwnerReferences = next }, []string{"team/web", "team/next"}},
		"that a StatefulSet adopts":            {web, func(p *corev1.Pod) { p.OwnerReferences = db }, []string{"team/web", "team/db"}},
		"that is given up":                     {db, func(p *corev1.Pod) { p.OwnerReferences = nil }, []string{"team/db"}},
		"that the next of a name adopts":       {db, func(p *corev1.Pod) { p.OwnerReferences = ownedBy("StatefulSet", "db", "other") }, []string{"team/db"}},
		"that was made anew":                   {db, func(p *corev1.Pod) { p.UID = "other" }, []string{"team/db"}},
		"of a StatefulSet, of another type":    {db, retype, []string{"team/db"}},
		"of a Deployment, of another type":     {web, retype, nil}, // its ReplicaSet says what it was made from
		"of a StatefulSet, with another hash":  {db, func(p *corev1.Pod) { p.Annotations = map[string]string{api.AnnotationConfigHash: "h"} }, []string{"team/db"}},
		"of a StatefulSet, with other mTLS":    {db, func(p *corev1.Pod) { p.Annotations = map[string]string{api.AnnotationMTLSMode: "m"} }, []string{"team/db"}},
		"of a StatefulSet, with another label": {db, func(p *corev1.Pod) { p.Labels = map[string]string{"any": "other"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "pod", UID: "pod", ResourceVersion: "1", OwnerReferences: test.owner}}
			after := before.DeepCopy()
			after.ResourceVersion = "2"
			test.edit(after)
			if got := names(w.r.onPod(before, after)); !slices.Equal(got, test.want) {
				t.Errorf("it wakes %v, want %v", got, test.want)
			}
		})
	}
}
