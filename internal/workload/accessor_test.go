// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

func condition(kind string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: generation}
}

// boxes is a view of one Sandbox that remembers what was applied to it.
type boxes struct {
	consistent.Kind[*agents.Sandbox]
	box     *agents.Sandbox
	err     error
	applied []consistent.Patch
	patched []consistent.Patch
	manager string
}

func (b *boxes) Get(context.Context, types.NamespacedName) (*agents.Sandbox, bool, error) {
	return b.box, b.box != nil, b.err
}

func (b *boxes) Apply(_ context.Context, base *agents.Sandbox, manager string, configuration consistent.Patch) (*agents.Sandbox, error) {
	b.manager = manager
	b.applied = append(b.applied, configuration)
	return base, b.err
}

func (b *boxes) Patch(_ context.Context, base *agents.Sandbox, p consistent.Patch) (*agents.Sandbox, error) {
	b.patched = append(b.patched, p)
	return base, b.err
}

// pods is a view of pods by the UID of their controller.
type pods struct {
	consistent.Kind[*corev1.Pod]
	by      map[string][]*corev1.Pod
	deleted []types.UID
	when    consistent.Precondition
}

func (p *pods) By(_ context.Context, index, value string) ([]*corev1.Pod, error) {
	if index != kinds.ByController {
		return nil, errors.New("pods are found by their controller's UID and nothing else")
	}
	return p.by[value], nil
}

func (p *pods) Delete(_ context.Context, obj *corev1.Pod, when consistent.Precondition) error {
	p.deleted, p.when = append(p.deleted, obj.UID), when
	return nil
}

type listed []*corev1.Pod

func (l listed) ListPods(_ context.Context, namespace, selector string) ([]*corev1.Pod, error) {
	if namespace != "team" || selector != agents.LabelSandboxNameHash+"="+agents.NameHash("box") {
		return nil, errors.New("other pods were asked for")
	}
	return l, nil
}

func newAccessor(box *agents.Sandbox, live listed, cached ...*corev1.Pod) (*Accessor, *boxes, *pods) {
	b, p := &boxes{box: box}, &pods{by: map[string][]*corev1.Pod{string(boxUID): cached, "other": {newPod("foreign")}}}
	return New(kinds.Views{Sandboxes: b, Pods: p}, live), b, p
}

func TestPodsAreFoundByTheUIDOfTheirOwner(t *testing.T) {
	a, _, _ := newAccessor(newBox(), nil, newPod("mine"))
	w, err := a.Get(t.Context(), boxTarget)
	if err != nil || len(w.Pods) != 1 || w.Pods[0].UID != "mine" {
		t.Errorf("found %+v, %v", w, err)
	}
}

func TestWhatTheWorkloadHasIsNotAppliedAgain(t *testing.T) {
	record := Record{Runtime: runtimeUID, Stamps: want, Generation: 4}
	a, b, _ := newAccessor(newBox(stamped(want), recorded(record)), nil)
	w, _ := a.Get(t.Context(), boxTarget)
	if err := a.Stamp(t.Context(), w, want, w.NewRecord(runtimeUID, want)); err != nil || len(b.applied) != 0 {
		t.Errorf("it was applied %d times, %v", len(b.applied), err)
	}
	if err := a.Stamp(t.Context(), w, old, w.NewRecord(runtimeUID, old)); err != nil || len(b.applied) != 1 || b.manager != api.FieldManager {
		t.Errorf("other stamps were applied %d times by %q, %v", len(b.applied), b.manager, err)
	}
}

func TestAReleaseTakesOffExactlyWhatWasPutOn(t *testing.T) {
	const rest = `{"metadata":{"annotations":{"agent.rossoctl.dev/rollout":null},"labels":{"app.kubernetes.io/managed-by":null`
	for name, test := range map[string]struct {
		box  *agents.Sandbox
		want string
	}{
		"all of it": {
			newBox(stamped(want), recorded(Record{Runtime: runtimeUID, Stamps: want})),
			rest + `,"rossoctl.io/type":null}},"spec":{"podTemplate":{"metadata":{"annotations":{"rossoctl.io/config-hash":null,"rossoctl.io/mtls-mode":null},"labels":{"rossoctl.io/type":null}}}}}`},
		"not what somebody changed since": {
			newBox(stamped(Stamps{Type: "tool", ConfigHash: "theirs", MTLSMode: "strict"}), recorded(Record{Runtime: runtimeUID, Stamps: want})),
			rest + `}}}`},
		"nothing of what has nothing": {newBox(), ""},
		"not a label without anything that says whose it is": {
			newBox(func(s *agents.Sandbox) { s.Labels = map[string]string{api.LabelType: "agent"} }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, _ := newAccessor(test.box, nil)
			w, _ := a.Get(t.Context(), boxTarget)
			if err := a.Release(t.Context(), w, nil); err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(b.patched) > 0 {
				text, _ := json.Marshal(b.patched[0])
				got = string(text)
			}
			if got != test.want {
				t.Errorf("the patch is %s, want %s", got, test.want)
			}
		})
	}
}

func TestASandboxIsStoppedOnlyIfTheServerHasNoPodOfIt(t *testing.T) {
	mine := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{UID: boxUID, Controller: ptr.To(true)}}
	}
	for name, test := range map[string]struct {
		live listed
		want bool
	}{
		"none but another's":          {listed{newPod("foreign")}, true},
		"one that no cache shows yet": {listed{newPod("unseen", mine)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			box := newBox(stamped(Stamps{ConfigHash: "old"}), func(s *agents.Sandbox) {
				s.Spec.OperatingMode = agents.OperatingModeSuspended
				s.Status.Conditions = []metav1.Condition{{Type: agents.ConditionSuspended, Status: metav1.ConditionTrue, ObservedGeneration: s.Generation}}
			})
			a, b, _ := newAccessor(box, test.live)
			w, _ := a.Get(t.Context(), boxTarget)
			if err := a.Stamp(t.Context(), w, want, w.NewRecord(runtimeUID, want)); err != nil || len(b.applied) != 1 {
				t.Fatalf("it was applied %d times, %v", len(b.applied), err)
			}
			got := recordOf(map[string]string{api.AnnotationRollout: b.applied[0]["metadata"].(map[string]any)["annotations"].(map[string]any)[api.AnnotationRollout].(string)})
			if got.Observed != test.want {
				t.Errorf("the record is %+v", got)
			}
		})
	}
}

func TestMarkedPodsAreThoseThatTheServerHas(t *testing.T) {
	mine := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{UID: boxUID, Controller: ptr.To(true)}}
	}
	record := Record{Runtime: runtimeUID, Stamps: want, Generation: 4}
	a, b, _ := newAccessor(newBox(stamped(want), recorded(record)), listed{newPod("unseen", mine), newPod("foreign")}, newPod("cached"))
	w, _ := a.Get(t.Context(), boxTarget)
	if err := a.Mark(t.Context(), w); err != nil || len(b.applied) != 1 {
		t.Fatalf("it was applied %d times, %v", len(b.applied), err)
	}
	got := recordOf(map[string]string{api.AnnotationRollout: b.applied[0]["metadata"].(map[string]any)["annotations"].(map[string]any)[api.AnnotationRollout].(string)})
	if got == nil || !got.Observed || !slices.Equal(got.Pods, []types.UID{"cached", "unseen"}) {
		t.Errorf("the record is %+v", got)
	}
	if b.applied[0]["spec"] == nil {
		t.Error("the stamps are not in the same apply, which takes them off")
	}
}

func TestPodsAreDeletedByTheirUID(t *testing.T) {
	a, _, p := newAccessor(newBox(), nil, newPod("mine"))
	w, _ := a.Get(t.Context(), boxTarget)
	if err := a.DeletePod(t.Context(), w.Pods[0]); err != nil || !slices.Equal(p.deleted, []types.UID{"mine"}) || !p.when.AnyVersion {
		t.Errorf("deleted %v, %+v, %v", p.deleted, p.when, err)
	}
}

func TestAConflictNamesTheFieldAndItsManager(t *testing.T) {
	a, b, _ := newAccessor(newBox(), nil)
	w, _ := a.Get(t.Context(), boxTarget)
	b.err = apierrors.NewApplyConflict([]metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl-edit" using agents.x-k8s.io/v1beta1`,
		Field: ".spec.podTemplate.metadata.annotations.rossoctl.io/config-hash",
	}}, "Apply failed with 1 conflict")
	var conflict *ConflictError
	err := a.Stamp(t.Context(), w, want, w.NewRecord(runtimeUID, want))
	if !errors.As(err, &conflict) || len(conflict.Fields) != 1 || conflict.Fields[0].Manager != "kubectl-edit" ||
		conflict.Fields[0].Field != ".spec.podTemplate.metadata.annotations.rossoctl.io/config-hash" {
		t.Errorf("got %v", err)
	}
}

func TestAKindThatIsNotServedIsToldFromAnObjectThatIsNotThere(t *testing.T) {
	noPath := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "sandboxes"}, "box", "page not found", 0, true)
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"the definition is not there":      {consistent.ErrNotServed, true},
		"the path is not there":            {noPath, true},
		"the object is not there":          {apierrors.NewNotFound(schema.GroupResource{Resource: "sandboxes"}, "box"), false},
		"the server does not answer":       {apierrors.NewServiceUnavailable("down"), false},
		"the server does not let us do it": {apierrors.NewForbidden(schema.GroupResource{Resource: "sandboxes"}, "box", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NotServed(test.err); got != test.want {
				t.Errorf("NotServed() = %t", got)
			}
		})
	}
}
