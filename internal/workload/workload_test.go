// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestWhichPodsOfASandboxAreProved(t *testing.T) {
	observed := Record{Runtime: runtimeUID, Stamps: want, Generation: 4, Observed: true, Pods: []types.UID{"before"}}
	pending := Record{Runtime: runtimeUID, Stamps: want, Generation: 4}
	for name, test := range map[string]struct {
		box  *agents.Sandbox
		pod  *corev1.Pod
		want bool
	}{
		"labels and annotations that were propagated to a pod prove nothing": {
			newBox(stamped(want), seenAt(4)), newPod("a", carrying(want)), false},
		"a pod that was there before the stamps were seen is none": {
			newBox(stamped(want), seenAt(4), recorded(observed)), newPod("before", carrying(want)), false},
		"a pod that came after the stamps were seen is": {
			newBox(stamped(want), seenAt(4), recorded(observed)), newPod("after"), true},
		"a pod that came before it was known which there were is none": {
			newBox(stamped(want), seenAt(4), recorded(pending)), newPod("after"), false},
		"a record of other stamps proves nothing": {
			newBox(stamped(want), seenAt(4), recorded(Record{Stamps: old, Observed: true})), newPod("after"), false},
		"a record proves nothing once the stamps are off": {
			newBox(stamped(old), seenAt(4), recorded(observed)), newPod("after"), false},
		"a pod of the template's revision is": {
			newBox(stamped(want), withRevision("v1-bb", 4)), newPod("a", ofRevision("v1-bb")), true},
		"a pod of another revision is none": {
			newBox(stamped(want), withRevision("v1-bb", 4), recorded(observed)), newPod("after", ofRevision("v1-aa"), carrying(want)), false},
		"a revision that was computed before the stamps proves nothing": {
			newBox(stamped(want), withRevision("v1-aa", 3)), newPod("a", ofRevision("v1-aa")), false},
		"a revision of another algorithm proves nothing": {
			newBox(stamped(want), withRevision("v2-bb", 4)), newPod("a", ofRevision("v1-bb")), false},
		"where a pod has no revision the record counts": {
			newBox(stamped(want), withRevision("v1-bb", 4), recorded(observed)), newPod("after"), true},
		"a revision that another controller left behind does not count": {
			newBox(stamped(want), withRevision("v1-bb", 3), seenAt(4), recorded(observed)), newPod("after", ofRevision("v1-aa")), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := fromSandbox(boxTarget, test.box, []*corev1.Pod{test.pod})
			if got := w.Proved(w.Pods[0], want); got != test.want {
				t.Errorf("Proved() = %t, want %t", got, test.want)
			}
		})
	}
}

func TestPodsThatOnlyTheRecordProvesHaveToBeAskedFor(t *testing.T) {
	observed := Record{Runtime: runtimeUID, Stamps: want, Generation: 4, Observed: true, Pods: []types.UID{"old"}}
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }
	for name, test := range map[string]struct {
		box  *agents.Sandbox
		pods []*corev1.Pod
		want []string
	}{
		"one that was not there when the others were written down": {
			newBox(stamped(want), seenAt(4), recorded(observed)), []*corev1.Pod{newPod("old"), newPod("new")}, []string{"pod-new"}},
		"none of a Sandbox whose pods record their revision": {
			newBox(stamped(want), withRevision("v1-a", 4), recorded(observed)), []*corev1.Pod{newPod("new", ofRevision("v1-a"))}, nil},
		"none that ends": {
			newBox(stamped(want), seenAt(4), recorded(observed)), []*corev1.Pod{newPod("new", terminating)}, nil},
		"none before the others are written down": {
			newBox(stamped(want), seenAt(4), recorded(Record{Runtime: runtimeUID, Stamps: want, Generation: 4})), []*corev1.Pod{newPod("new")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range fromSandbox(boxTarget, test.box, test.pods).ProvedByRecord() {
				got = append(got, p.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestWhatARolloutOfASandboxNeedsNext(t *testing.T) {
	pending := Record{Runtime: runtimeUID, Stamps: want, Generation: 4}
	observed := Record{Runtime: runtimeUID, Stamps: want, Generation: 4, Observed: true, Pods: []types.UID{"a"}}
	for name, test := range map[string]struct {
		box  *agents.Sandbox
		pods []*corev1.Pod
		want Move
		why  string
	}{
		"nothing is deleted before the Sandbox's controller has seen the stamps": {
			newBox(stamped(want), seenAt(3), recorded(pending)), []*corev1.Pod{newPod("a")}, Await, "generation 4"},
		"then it is written down which pods there are": {
			newBox(stamped(want), seenAt(4), recorded(pending)), []*corev1.Pod{newPod("a")}, Mark, ""},
		"then those are deleted": {
			newBox(stamped(want), seenAt(4), recorded(observed)), []*corev1.Pod{newPod("a", carrying(want))}, Replace, ""},
		"one that is terminating is waited for, however long that takes": {
			newBox(stamped(want), seenAt(4), recorded(observed)), []*corev1.Pod{newPod("a", terminating)}, Await, "terminating"},
		"one that failed is deleted, since nobody else does": {
			newBox(stamped(want), seenAt(4), recorded(observed)), []*corev1.Pod{newPod("a", failed)}, Replace, ""},
		"one that succeeded is left": {
			newBox(stamped(want), seenAt(4), recorded(observed)), []*corev1.Pod{newPod("a", succeeded)}, Nothing, ""},
		"one that came after is left": {
			newBox(stamped(want), seenAt(4), recorded(observed)), []*corev1.Pod{newPod("b", unready)}, Nothing, ""},
		"a suspended Sandbox is left suspended": {
			newBox(stamped(want), seenAt(4), suspended, recorded(observed)), []*corev1.Pod{newPod("a")}, Nothing, ""},
		"so is one whose replicas are 0": {
			newBox(stamped(want), seenAt(4), scaledToZero, recorded(observed)), []*corev1.Pod{newPod("a")}, Nothing, ""},
		"a pod of an older revision is deleted": {
			newBox(stamped(want), withRevision("v1-bb", 4)), []*corev1.Pod{newPod("a", ofRevision("v1-aa"))}, Replace, ""},
		"not before the revision is known": {
			newBox(stamped(want), withRevision("v1-aa", 3)), []*corev1.Pod{newPod("a", ofRevision("v1-aa"))}, Await, "generation 4"},
		"not if the Sandbox replaces it itself": {
			newBox(stamped(want), withRevision("v1-bb", 4), recreates), []*corev1.Pod{newPod("a", ofRevision("v1-aa"))}, Await, "itself"},
		"not if the Sandbox is suspended": {
			newBox(stamped(want), withRevision("v1-bb", 4), suspended), []*corev1.Pod{newPod("a", ofRevision("v1-aa"))}, Nothing, ""},
		"a pod of the revision is left": {
			newBox(stamped(want), withRevision("v1-bb", 4), recorded(pending)), []*corev1.Pod{newPod("a", ofRevision("v1-bb"))}, Nothing, ""},
		"a pod without a revision is deleted by the record, also if the Sandbox replaces outdated ones": {
			newBox(stamped(want), withRevision("v1-bb", 4), recreates, recorded(observed)), []*corev1.Pod{newPod("a")}, Replace, ""},
		"of a record that is unknown nothing follows": {
			newBox(stamped(want), seenAt(4)), []*corev1.Pod{newPod("a")}, Await, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fromSandbox(boxTarget, test.box, test.pods)
			got, pods, why := w.NextMove(want)
			if got != test.want || !strings.Contains(why, test.why) || (got == Replace) != (len(pods) > 0) {
				t.Errorf("NextMove() = %d, %d pods, %q; want %d", got, len(pods), why, test.want)
			}
		})
	}
}

func TestTheRecordThatIsWrittenWithTheStamps(t *testing.T) {
	stopped := func(s *agents.Sandbox) {
		s.Status.Conditions = append(s.Status.Conditions, condition(agents.ConditionSuspended, 4))
	}
	stoppedBefore := func(s *agents.Sandbox) {
		s.Status.Conditions = append(s.Status.Conditions, condition(agents.ConditionSuspended, 3))
	}
	first := func(s *agents.Sandbox) { s.Generation = 1 }
	for name, test := range map[string]struct {
		box  *agents.Sandbox
		want Record
	}{
		"a change of the template makes the next generation": {
			newBox(stamped(old)), Record{Runtime: runtimeUID, Stamps: want, Generation: 5}},
		"stamps that are there already do not": {
			newBox(stamped(want)), Record{Runtime: runtimeUID, Stamps: want, Generation: 4}},
		"a Sandbox that was created with the stamps never had a pod without": {
			newBox(stamped(want), first), Record{Runtime: runtimeUID, Stamps: want, Generation: 1, Observed: true}},
		"one that was created with others did": {
			newBox(stamped(old), first), Record{Runtime: runtimeUID, Stamps: want, Generation: 2}},
		"one that its controller has stopped gets its next pod after this": {
			newBox(stamped(old), suspended, stopped), Record{Runtime: runtimeUID, Stamps: want, Generation: 5, Observed: true}},
		"one that its controller has not stopped yet may still get one before": {
			newBox(stamped(old), suspended, stoppedBefore), Record{Runtime: runtimeUID, Stamps: want, Generation: 5}},
		"what another AgentRuntime's record proves stays proved": {
			newBox(stamped(want), recorded(Record{Runtime: "other", Stamps: want, Generation: 2, Observed: true, Pods: []types.UID{"a"}})),
			Record{Runtime: runtimeUID, Stamps: want, Generation: 2, Observed: true, Pods: []types.UID{"a"}}},
		"stamps that were removed and are written again prove nothing of what came between": {
			newBox(stamped(old), recorded(Record{Runtime: runtimeUID, Stamps: want, Generation: 2, Observed: true})),
			Record{Runtime: runtimeUID, Stamps: want, Generation: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			w := fromSandbox(boxTarget, test.box, nil)
			if got := w.NewRecord(runtimeUID, want); !(&Workload{Record: got}).hasRecord(&test.want) {
				t.Errorf("NewRecord() = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestTheStampsAndWhatTheRolloutNeedsAreOneWrite(t *testing.T) {
	w := fromSandbox(boxTarget, newBox(stamped(old)), nil)
	patch, err := w.configuration(want, w.NewRecord(runtimeUID, want))
	if err != nil {
		t.Fatal(err)
	}
	metadata := patch["metadata"].(map[string]any)
	if metadata["annotations"].(map[string]any)[api.AnnotationRollout] == nil {
		t.Error("the record is not in it")
	}
	spec := patch["spec"].(map[string]any)
	template := spec["podTemplate"].(map[string]any)["metadata"].(map[string]any)
	if template["annotations"].(map[string]any)[api.AnnotationConfigHash] != want.ConfigHash {
		t.Errorf("the stamps are not in it: %v", patch)
	}
	if len(spec) != 1 || len(patch) != 2 {
		t.Errorf("more is in it than labels and annotations: %v", patch)
	}
}

func TestALabelThatOthersManageStaysTheirs(t *testing.T) {
	w := fromSandbox(boxTarget, newBox(stamped(want), func(s *agents.Sandbox) { s.Labels[api.LabelManagedBy] = "rossoctl-ui" }), nil)
	patch, err := w.configuration(want, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := patch["metadata"].(map[string]any)["labels"].(map[string]any)[api.LabelManagedBy]; got != nil || !w.Stamped(want) {
		t.Errorf("it is written as %v; stamped: %t", got, w.Stamped(want))
	}
}

func TestAPoolsSandboxIsToldFromAClaims(t *testing.T) {
	for kind, want := range map[string]bool{extensions.SandboxWarmPoolKind: true, extensions.SandboxClaimKind: false} {
		if got := fromSandbox(boxTarget, newBox(ownedBy(kind)), nil).OwnedByPool; got != want {
			t.Errorf("OwnedByPool of a Sandbox of a %s is %t", kind, got)
		}
	}
}

func TestPodsThatAreOldOrOnTheirWayOutAreNotConfigured(t *testing.T) {
	record := Record{Runtime: runtimeUID, Stamps: want, Generation: 4, Observed: true, Pods: []types.UID{"before"}}
	w := fromSandbox(boxTarget, newBox(stamped(want), seenAt(4), recorded(record)), []*corev1.Pod{
		newPod("before", carrying(want)), newPod("going", terminating), newPod("failed", failed), newPod("done", succeeded), newPod("young", unready), newPod("fine"),
	})
	if got, want := w.Count(want), (api.PodCounts{Total: 3, Updated: 2, Ready: 1}); got != want {
		t.Errorf("Count() = %+v, want %+v", got, want)
	}
}

func TestADeploymentsPodsHaveWhatTheirReplicaSetHas(t *testing.T) {
	d := newWeb(want)
	w := fromDeployment(webTarget, d, []madeBy{
		{newSet("one", old), []*corev1.Pod{newPod("a", carrying(want)), newPod("b", terminating)}},
		{newSet("two", want), []*corev1.Pod{newPod("c"), newPod("d", unready)}},
	})
	if got, want := w.Count(want), (api.PodCounts{Total: 3, Updated: 2, Ready: 1}); got != want {
		t.Errorf("Count() = %+v, want %+v", got, want)
	}
	if got := len(w.Outdated(want)); got != 2 {
		t.Errorf("%d pods are outdated, want those of the old ReplicaSet, also the one that still runs", got)
	}
	if move, _, why := w.NextMove(want); move != Await || !strings.Contains(why, "2 outdated pods") {
		t.Errorf("NextMove() = %d, %q", move, why)
	}
}

func TestWorkloadsThatDoNotReplaceTheirPodsSaySo(t *testing.T) {
	paused := fromDeployment(webTarget, newWeb(want, func(d *appsv1.Deployment) { d.Spec.Paused = true }), nil)
	onDelete, partitioned := &appsv1.StatefulSet{}, &appsv1.StatefulSet{}
	onDelete.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	partitioned.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}
	for name, w := range map[string]*Workload{
		"paused": paused, "OnDelete": fromStatefulSet(Target{}, onDelete, nil), "partition": fromStatefulSet(Target{}, partitioned, nil),
	} {
		if !strings.Contains(w.Held, name) {
			t.Errorf("Held is %q", w.Held)
		}
	}
	if held := fromStatefulSet(Target{}, &appsv1.StatefulSet{}, nil).Held; held != "" {
		t.Errorf("Held is %q for a StatefulSet that rolls", held)
	}
}

func TestATargetIsTheSameInEveryVersion(t *testing.T) {
	a, errA := TargetOf("team", api.TargetReference{APIVersion: "agents.x-k8s.io/v1alpha1", Kind: "Sandbox", Name: "box"})
	b, errB := TargetOf("team", api.TargetReference{APIVersion: "agents.x-k8s.io/v7", Kind: "Sandbox", Name: "box"})
	if a != b || a.Index() != b.Index() || errA != nil || errB != nil {
		t.Errorf("%v, %v and %v, %v differ", a, errA, b, errB)
	}
	for _, ref := range []api.TargetReference{
		{APIVersion: "apps/v1", Kind: "Sandbox", Name: "x"}, {APIVersion: "apps/v1", Kind: "DaemonSet", Name: "x"},
		{APIVersion: "v1", Kind: "Pod", Name: "x"}, {APIVersion: "a/b/c", Kind: "Deployment", Name: "x"},
	} {
		if _, err := TargetOf("team", ref); err == nil {
			t.Errorf("%v was taken", ref)
		}
	}
}
