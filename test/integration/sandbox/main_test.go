// SPDX-License-Identifier: Apache-2.0

// Package sandbox_test runs the controller of Sandboxes against a real API server. The
// tests play the kubelet, the owners of Sandboxes, and the garbage collector.
package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
	"github.com/berthdev/berth/internal/sandbox"
)

// limit is for something that happens at once to have happened on a slow machine.
const limit = time.Minute

var (
	cluster   *localcluster.Cluster
	installed sync.Once
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(clustertest.Main(m, &cluster, clustertest.WithAudit()))
}

// stage is a namespace, and a controller that runs.
type stage struct {
	t         *testing.T
	ctx       context.Context
	client    client.WithWatch
	namespace string
	manager   *managertest.Manager
}

func newStage(t *testing.T) *stage {
	t.Helper()
	installed.Do(func() { managertest.Install(t, cluster) })
	config := clustertest.RESTConfig(t, cluster, "test")
	c, err := client.NewWithWatch(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "sandbox-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, ctx: t.Context(), client: c, namespace: ns.Name}
	s.manager = managertest.Start(t, cluster, managertest.Options{Controllers: []manager.Controller{{New: newController(t, config)}}})
	return s
}

func newController(t *testing.T, config *rest.Config) func(control.Environment, kinds.Views) control.Controller {
	t.Helper()
	pods, err := manager.WholePods(config)
	if err != nil {
		t.Fatal(err)
	}
	return func(env control.Environment, views kinds.Views) control.Controller {
		return sandbox.New(env, views, sandbox.Options{WholePods: pods})
	}
}

// box is a Sandbox whose pod has a node, so that it stays terminating until its kubelet,
// which the test plays, says that it stopped.
func (s *stage) box(edits ...func(*agents.Sandbox)) *agents.Sandbox {
	box := &agents.Sandbox{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "box"},
		Spec: agents.SandboxSpec{SandboxBlueprint: agents.SandboxBlueprint{PodTemplate: agents.PodTemplate{
			Metadata: agents.PodMetadata{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "x"}},
			Spec: corev1.PodSpec{
				NodeName:   "node-1",
				Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}},
			},
		}}},
	}
	for _, edit := range edits {
		edit(box)
	}
	return box
}

// running creates a Sandbox and brings it to Ready.
func (s *stage) running(edits ...func(*agents.Sandbox)) (*agents.Sandbox, *corev1.Pod) {
	s.t.Helper()
	box := s.box(edits...)
	s.create(box)
	pod := s.pod(box.Name, "")
	s.becomesReady(pod)
	s.await(box, "is Ready", func() bool { return says(box, agents.ConditionReady) == "True/DependenciesReady" })
	return box, pod
}

// barrier returns when the controller has handled what happened before: it handles one
// Sandbox at a time, in the order they were woken.
func (s *stage) barrier() {
	s.t.Helper()
	box := s.box(func(b *agents.Sandbox) { b.Name = ""; b.GenerateName = "barrier-" })
	s.create(box)
	pod := s.pod(box.Name, "")
	s.becomesReady(pod)
	s.await(box, "is Ready", func() bool { return says(box, agents.ConditionReady) == "True/DependenciesReady" })
	s.patch(box, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{"seen": "1"}}})
	suspended := map[string]any{"spec": map[string]any{"operatingMode": "Suspended"}}
	s.patch(box, "", suspended)
	s.await(pod, "is being deleted", func() bool { return pod.DeletionTimestamp != nil })
}

// requests are those the controller made in the namespace while during ran. It also
// sees the Sandboxes of other tests.
func (s *stage) requests(during func()) []localcluster.Request {
	s.t.Helper()
	return slices.DeleteFunc(s.manager.Requests(s.t, "sandbox", during), func(r localcluster.Request) bool { return r.Namespace != s.namespace })
}

// writes counts the writes among the requests.
func (s *stage) writes(during func()) map[string]int {
	s.t.Helper()
	return clustertest.Writes(s.requests(during))
}

// pod waits for a live pod of the given name that is not the one with the given UID.
func (s *stage) pod(name string, not types.UID) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	s.await(pod, "is made", func() bool { return pod.UID != "" && pod.UID != not && pod.DeletionTimestamp == nil })
	return pod
}

// becomesReady plays the kubelet of a pod that starts.
func (s *stage) becomesReady(pod *corev1.Pod) {
	s.t.Helper()
	now := metav1.Now()
	s.patch(pod, "status", map[string]any{"status": map[string]any{
		"phase": "Running", "podIP": "10.1.2.3", "podIPs": []map[string]any{{"ip": "10.1.2.3"}},
		"conditions": []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}})
}

// stopped plays the kubelet of a terminating pod whose containers have ended.
func (s *stage) stopped(pod *corev1.Pod) {
	s.t.Helper()
	err := s.client.Delete(s.ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) create(obj client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.ctx, obj); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) delete(obj client.Object) {
	s.t.Helper()
	if err := s.client.Delete(s.ctx, obj); err != nil {
		s.t.Fatal(err)
	}
}

// patch changes what is on the server; obj becomes what came of it.
func (s *stage) patch(obj client.Object, subresource string, body any) {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	change := client.RawPatch(types.MergePatchType, text)
	if subresource != "" {
		err = s.client.SubResource(subresource).Patch(s.ctx, obj, change)
	} else {
		err = s.client.Patch(s.ctx, obj, change)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// exists reads obj, and reports whether it is there.
func (s *stage) exists(obj client.Object) bool {
	s.t.Helper()
	err := s.client.Get(s.ctx, client.ObjectKeyFromObject(obj), obj)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return err == nil
}

// await returns when obj, which is kept up to date, is as wanted.
func (s *stage) await(obj client.Object, what string, done func() bool) {
	s.t.Helper()
	if !s.watch(obj, "", func(event watch.EventType) bool { return event != watch.Deleted && done() }) {
		text, _ := json.MarshalIndent(obj, "", "  ")
		s.t.Fatalf("%T %s: not so after %s: %s\n%s", obj, obj.GetName(), limit, what, text)
	}
}

// awaitGone returns when the object that obj is does not exist any more.
func (s *stage) awaitGone(obj client.Object) {
	s.t.Helper()
	uid, now := obj.GetUID(), obj.DeepCopyObject().(client.Object)
	if err := s.client.Get(s.ctx, client.ObjectKeyFromObject(obj), now); apierrors.IsNotFound(err) || now.GetUID() != uid {
		return
	}
	if !s.watch(now, now.GetResourceVersion(), func(event watch.EventType) bool { return event == watch.Deleted || now.GetUID() != uid }) {
		s.t.Fatalf("%T %s is not gone after %s", obj, obj.GetName(), limit)
	}
}

// watch follows obj from a version on until done, which is asked at every change. From
// no version, the first event shows what is there.
func (s *stage) watch(obj client.Object, version string, done func(watch.EventType) bool) bool {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	gvk, err := s.client.GroupVersionKindFor(obj)
	if err != nil {
		s.t.Fatal(err)
	}
	kind := fmt.Sprintf("%sList", gvk.Kind)
	list, err := s.client.Scheme().New(gvk.GroupVersion().WithKind(kind))
	if err != nil {
		s.t.Fatal(err)
	}
	w, err := s.client.Watch(ctx, list.(client.ObjectList), client.InNamespace(obj.GetNamespace()),
		&client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", obj.GetName()), Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		changed, ok := event.Object.(client.Object)
		if !ok {
			continue
		}
		copyInto(obj, changed)
		if done(event.Type) {
			return true
		}
	}
	return false
}

func copyInto(obj, from client.Object) {
	switch obj := obj.(type) {
	case *agents.Sandbox:
		*obj = *from.(*agents.Sandbox)
	case *corev1.Pod:
		*obj = *from.(*corev1.Pod)
	case *corev1.Service:
		*obj = *from.(*corev1.Service)
	case *corev1.PersistentVolumeClaim:
		*obj = *from.(*corev1.PersistentVolumeClaim)
	default:
		panic(fmt.Sprintf("no test waits for a %T", obj))
	}
}

// says is the status and reason of a condition, or empty.
func says(box *agents.Sandbox, kind string) string {
	c := meta.FindStatusCondition(box.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}

// message is the message of a condition, or empty.
func message(box *agents.Sandbox, kind string) string {
	if c := meta.FindStatusCondition(box.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

func withService(box *agents.Sandbox) { box.Spec.Service = ptr.To(true) }

func recreate(box *agents.Sandbox) {
	box.Spec.UpdateStrategy = &agents.SandboxUpdateStrategy{Type: agents.SandboxUpdateRecreate}
}
