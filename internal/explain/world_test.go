// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/leader"
	"github.com/berthdev/berth/internal/mergepatch"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
)

var now = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

const (
	system = "agent-sandbox-system"
	no     = metav1.ConditionFalse
	yes    = metav1.ConditionTrue
)

// world is a client.Reader of objects that tests make.
type world struct {
	objects []client.Object
	// forbidden are the types whose lists and objects may not be read.
	forbidden []client.Object
	// unserved are the types that the server does not know.
	unserved []client.Object
}

func (w *world) refuses(obj reflect.Type) error {
	for _, f := range w.unserved {
		if reflect.TypeOf(f).Elem() == obj {
			return apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Resource: strings.ToLower(obj.Name())}, "", "404 page not found", 0, true)
		}
	}
	for _, f := range w.forbidden {
		if reflect.TypeOf(f).Elem() == obj {
			return apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(obj.Name()) + "s"}, "", nil)
		}
	}
	return nil
}

func (w *world) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	items := reflect.ValueOf(into).Elem().FieldByName("Items")
	for _, obj := range w.objects {
		if v := reflect.ValueOf(obj.DeepCopyObject()).Elem(); v.Type() == items.Type().Elem() {
			items.Set(reflect.Append(items, v))
		}
	}
	return w.refuses(items.Type().Elem())
}

func (w *world) Get(_ context.Context, key types.NamespacedName, into client.Object, _ ...client.GetOption) error {
	target := reflect.ValueOf(into).Elem()
	for _, obj := range w.objects {
		if v := reflect.ValueOf(obj).Elem(); v.Type() == target.Type() && client.ObjectKeyFromObject(obj) == key {
			target.Set(v)
			return w.refuses(target.Type())
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: target.Type().Name()}, key.Name)
}

// lease is the controllers', renewed age ago.
func lease(age time.Duration) *coordinationv1.Lease {
	at := metav1.NewMicroTime(now.Add(-age))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: leader.LeaseName, UID: "lease"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("controller-0_x"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &at},
	}
}

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: ready, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}}}}
}

func object(name string, age time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "7", Generation: 1,
		CreationTimestamp: metav1.NewTime(now.Add(-age))}
}

// edit changes an object that is about to be used in a test.
func edit[T client.Object](obj T, edits ...func(T)) T {
	for _, e := range edits {
		e(obj)
	}
	return obj
}

func says(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 1,
		LastTransitionTime: metav1.NewTime(now.Add(-10 * time.Minute))}
}

func newTemplate(edits ...func(*extensions.SandboxTemplate)) *extensions.SandboxTemplate {
	t := &extensions.SandboxTemplate{ObjectMeta: object("python-template", time.Hour)}
	t.Labels = map[string]string{agents.LabelTemplateRefHash: agents.NameHash(t.Name)}
	t.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "python:3.12"}}
	return edit(t, edits...)
}

// isolated is the template with its NetworkPolicy.
func isolated(t *extensions.SandboxTemplate) []client.Object {
	policy := template.Policy(t)
	policy.UID = "policy-uid"
	return []client.Object{t, policy}
}

func newPool(replicas int32, conditions ...metav1.Condition) *extensions.SandboxWarmPool {
	p := &extensions.SandboxWarmPool{ObjectMeta: object("python", time.Hour)}
	p.Spec.Replicas = &replicas
	p.Spec.TemplateRef.Name = "python-template"
	p.Status.Conditions = conditions
	return p
}

// newMember is a member of newPool, one minute old and not Ready.
func newMember(name string, edits ...func(*agents.Sandbox)) *agents.Sandbox {
	s := blueprint.Of(newTemplate()).Member(newPool(1), name)
	m := object(name, time.Minute)
	m.Labels, m.Annotations, m.OwnerReferences = s.Labels, s.Annotations, s.OwnerReferences
	s.ObjectMeta = m
	s.Status.Conditions = []metav1.Condition{says(agents.ConditionReady, no, agents.ReasonDependenciesNotReady, "Pod exists with phase: Pending")}
	return edit(s, edits...)
}

func newClaim(name string, edits ...func(*extensions.SandboxClaim)) *extensions.SandboxClaim {
	c := &extensions.SandboxClaim{ObjectMeta: object(name, 5*time.Minute)}
	c.Spec.WarmPoolRef = &extensions.SandboxWarmPoolRef{Name: "python"}
	return edit(c, edits...)
}

func older(c *extensions.SandboxClaim) { c.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)) }

func boundTo(sandbox string, conditions ...metav1.Condition) func(*extensions.SandboxClaim) {
	return func(c *extensions.SandboxClaim) {
		c.Status.Sandbox = extensions.ClaimedSandbox{Name: sandbox, UID: types.UID(sandbox + "-uid")}
		c.Status.Conditions = conditions
	}
}

func controlled(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
}

// newSandbox is a bare Sandbox that says that it is Ready.
func newSandbox(name string, edits ...func(*agents.Sandbox)) *agents.Sandbox {
	s := &agents.Sandbox{ObjectMeta: object(name, time.Hour)}
	s.Annotations = map[string]string{agents.AnnotationPodName: name}
	s.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "python:3.12"}}
	s.Status.Conditions = []metav1.Condition{says(agents.ConditionReady, yes, agents.ReasonDependenciesReady, agents.MessagePodReady)}
	return edit(s, edits...)
}

func claimed(by string) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) {
		s.OwnerReferences = controlled(extensions.GroupVersion.String(), extensions.SandboxClaimKind, by, types.UID(by+"-uid"))
	}
}

// newPod is a Sandbox's pod, Running and Ready.
func newPod(s *agents.Sandbox, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: object(s.Name, 10*time.Minute)}
	p.UID += "-pod"
	p.Labels = map[string]string{agents.LabelSandboxNameHash: agents.NameHash(s.Name), agents.LabelSandboxUID: string(s.UID)}
	p.OwnerReferences = controlled(agents.GroupVersion.String(), agents.SandboxKind, s.Name, s.UID)
	p.Spec = *s.Spec.PodTemplate.Spec.DeepCopy()
	p.Spec.NodeName = "node-1"
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.7", PodIPs: []corev1.PodIP{{IP: "10.0.0.7"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	return edit(p, edits...)
}

func unschedulable(p *corev1.Pod) {
	p.Spec.NodeName = ""
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 Insufficient memory."}}}
}

func waitingFor(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.PodIP, p.Status.PodIPs = "", nil
		p.Status.Conditions = p.Status.Conditions[:1]
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: 4,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	}
}

// crashing is a pod whose container has ended so often, and was started again age ago.
func crashing(times int32, age time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: times, Ready: true,
			State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-age))}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}}}
	}
}

// terminatingSince is a pod whose grace period ended so long ago.
func terminatingSince(age time.Duration, finalizers ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(now.Add(-age))), finalizers
	}
}

func warning(about client.Object, reason, message string, age time.Duration) *corev1.Event {
	return &corev1.Event{ObjectMeta: object(reason, age), Type: corev1.EventTypeWarning, Reason: reason, Message: message, Count: 12,
		InvolvedObject: corev1.ObjectReference{UID: about.GetUID()}, LastTimestamp: metav1.NewTime(now.Add(-age))}
}

// writable is a view whose objects can be patched, for controllers that play a part.
type writable[T client.Object] struct{ *view[T] }

func (w writable[T]) PatchStatus(ctx context.Context, base T, p consistent.Patch) (T, error) {
	return w.Patch(ctx, base, p)
}

func (w writable[T]) Patch(_ context.Context, base T, p consistent.Patch) (T, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return base, err
	}
	after, _, err := new(mergepatch.Merger).Apply(base, body)
	if err != nil {
		return base, err
	}
	at := slices.IndexFunc(w.items, func(item T) bool { return item.GetUID() == base.GetUID() })
	w.items[at] = after.(T)
	return after.(T), nil
}

// settled is a Sandbox and its pods after the controller has written all it has to.
func settled(t *testing.T, s *agents.Sandbox, pods ...*corev1.Pod) []client.Object {
	t.Helper()
	w := &world{objects: []client.Object{s}}
	for _, pod := range pods {
		w.objects = append(w.objects, pod)
	}
	found, err := take(t.Context(), w, s.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	views := found.views()
	views.Sandboxes, views.Pods = writable[*agents.Sandbox]{found.sandboxes}, writable[*corev1.Pod]{found.pods}
	controller := sandbox.New(control.Environment{Clock: standing{now.Add(-time.Minute)}}, views, sandbox.Options{WholePods: wholePods{found}})
	if _, err := controller.Reconcile(t.Context(), control.Request(s.Namespace, s.Name)); err != nil {
		t.Fatal(err)
	}
	list := objects(found.sandboxes)
	for i, pod := range found.pods.items {
		pod.Spec = found.whole[i].Spec
		list = append(list, pod)
	}
	return list
}
