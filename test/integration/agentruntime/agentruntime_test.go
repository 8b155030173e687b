// SPDX-License-Identifier: Apache-2.0

// Package agentruntime_test runs the controller of AgentRuntimes against a real API
// server. The tests play the kubelet, and the controller of Sandboxes where it is to be
// another one.
package agentruntime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
	"github.com/berthdev/berth/internal/sandbox"
)

const (
	// limit is for something that happens at once to have happened on a slow machine.
	limit = 2 * time.Minute
	// fleetLimit is for something that takes hundreds of pods.
	fleetLimit = 20 * time.Minute
	// workers are those of each controller.
	workers = 10
	// listsAgent is how the controller's lists are told apart.
	listsAgent = "lists"
)

var (
	cluster   *localcluster.Cluster
	installed sync.Once
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Main(m, &cluster, clustertest.WithAudit()))
}

type stage struct {
	t         *testing.T
	client    client.WithWatch
	namespace string
	manager   *managertest.Manager
}

// newStage runs the controllers in a namespace of their own. elsewhere leaves the
// Sandboxes to the test.
func newStage(t *testing.T, elsewhere bool, edits ...func(*agentruntime.Options)) *stage {
	t.Helper()
	installed.Do(func() { managertest.Install(t, cluster) })
	config := clustertest.RESTConfig(t, cluster, "test")
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "agentruntime-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	lists, err := manager.NewLists(clustertest.RESTConfig(t, cluster, listsAgent))
	if err != nil {
		t.Fatal(err)
	}
	options := agentruntime.Options{Lister: lists}
	for _, edit := range edits {
		edit(&options)
	}
	controllers := []manager.Controller{{Events: "agentruntime-controller", Workers: workers, New: func(env control.Environment, views kinds.Views) control.Controller {
		return agentruntime.New(env, views, options)
	}}}
	if !elsewhere {
		controllers = append(controllers, manager.Controller{Events: "sandbox-controller", Workers: workers, New: func(env control.Environment, views kinds.Views) control.Controller {
			return sandbox.New(env, views, sandbox.Options{})
		}})
	}
	s := &stage{t: t, client: c, namespace: ns.Name}
	s.manager = managertest.Start(t, cluster, managertest.Options{Controllers: controllers, AgentRuntimes: true, SandboxesElsewhere: elsewhere})
	return s
}

// kubelet makes every pod of the namespace Ready until the test ends.
func (s *stage) kubelet() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := s.client.Watch(ctx, &corev1.PodList{}, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for event := range w.ResultChan() {
			if p, ok := event.Object.(*corev1.Pod); ok && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodPending {
				_ = s.client.Status().Patch(ctx, p, readyPod()) // it may be gone again
			}
		}
	})
	s.t.Cleanup(func() { w.Stop(); cancel(); work.Wait() })
}

func (s *stage) create(obj client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.t.Context(), obj); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

func (s *stage) sandbox(name string) *agents.Sandbox {
	b := &agents.Sandbox{ObjectMeta: s.meta(name)}
	b.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox:1.36"}}
	return b
}

func (s *stage) runtime(name, apiVersion, kind string) *api.AgentRuntime {
	return &api.AgentRuntime{ObjectMeta: s.meta(name), Spec: api.AgentRuntimeSpec{
		Type: api.RuntimeTypeAgent, TargetRef: api.TargetReference{APIVersion: apiVersion, Kind: kind, Name: name},
	}}
}

func (s *stage) defaults(value string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{ObjectMeta: s.meta("mine"), Data: map[string]string{"value": value}}
	m.Labels = map[string]string{api.LabelDefaults: api.DefaultsTrue}
	return m
}

// await returns the object once it is as wanted.
func await[T client.Object, L client.ObjectList](s *stage, obj T, list L, what string, ok func(T) bool) T {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	w, err := s.client.Watch(ctx, list, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Stop()
	last := obj
	for event := range w.ResultChan() {
		if found, is := event.Object.(T); is && found.GetName() == obj.GetName() {
			if last = found; ok(found) {
				return found
			}
		}
	}
	text, _ := json.MarshalIndent(last, "", " ")
	s.t.Fatalf("%s: this did not come: %s", what, text)
	return obj
}

func (s *stage) awaitRuntime(name, what string, ok func(*api.AgentRuntime) bool) *api.AgentRuntime {
	s.t.Helper()
	return await(s, &api.AgentRuntime{ObjectMeta: s.meta(name)}, &api.AgentRuntimeList{}, what, ok)
}

func configured(a *api.AgentRuntime) bool {
	return a.Status.Phase == api.PhaseActive && a.Status.ConfiguredPods == 1 && a.Status.AppliedConfigHash == a.Status.DesiredConfigHash
}

func (s *stage) awaitGone(obj client.Object) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	w, err := s.client.Watch(ctx, &api.AgentRuntimeList{}, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Stop()
	gone := func() bool { return apierrors.IsNotFound(s.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)) }
	for !gone() {
		if _, ok := <-w.ResultChan(); !ok {
			s.t.Fatalf("%s did not go", obj.GetName())
		}
	}
}

func (s *stage) get(obj client.Object) {
	s.t.Helper()
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		s.t.Fatal(err)
	}
}

func TestASandboxGetsItsConfigurationAndEveryChangeOfIt(t *testing.T) {
	s := newStage(t, false)
	s.kubelet()
	s.create(s.sandbox("box"))
	first := await(s, &corev1.Pod{ObjectMeta: s.meta("box")}, &corev1.PodList{}, "the first pod", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	s.create(s.runtime("box", "agents.x-k8s.io/v1alpha1", "Sandbox"))
	a := s.awaitRuntime("box", "configured", configured)
	second := &corev1.Pod{ObjectMeta: s.meta("box")}
	s.get(second)
	if second.UID == first.UID || second.Annotations[api.AnnotationConfigHash] != a.Status.AppliedConfigHash {
		t.Errorf("the pod was not replaced, or lacks the configuration: %v", second.Annotations)
	}

	s.create(s.defaults("one"))
	b := s.awaitRuntime("box", "configured anew", func(b *api.AgentRuntime) bool {
		return configured(b) && b.Status.AppliedConfigHash != a.Status.AppliedConfigHash
	})
	third := &corev1.Pod{ObjectMeta: s.meta("box")}
	s.get(third)
	if third.UID == second.UID || third.Annotations[api.AnnotationConfigHash] != b.Status.AppliedConfigHash {
		t.Errorf("the pod was not replaced, or lacks the new configuration: %v", third.Annotations)
	}

	s.manager.Restart(t)
	if err := s.client.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	s.awaitGone(b)
	box := s.sandbox("box")
	s.get(box)
	if len(box.Spec.PodTemplate.Metadata.Labels)+len(box.Spec.PodTemplate.Metadata.Annotations) > 0 || box.Labels[api.LabelType] != "" || box.Annotations[api.AnnotationRollout] != "" {
		t.Errorf("the Sandbox still has %v, %v, %+v", box.Labels, box.Annotations, box.Spec.PodTemplate.Metadata)
	}
	for _, entry := range box.ManagedFields {
		if entry.Manager == api.FieldManager {
			t.Errorf("the field manager still owns %s", entry.FieldsV1)
		}
	}
}

func TestADeploymentIsStampedAndAForeignValueIsAConflict(t *testing.T) {
	s := newStage(t, false)
	labels := map[string]string{"app": "web"}
	web := &appsv1.Deployment{ObjectMeta: s.meta("web"), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36"}}}},
	}}
	s.create(web)
	s.create(s.runtime("web", "apps/v1", "Deployment"))
	stamped := await(s, web, &appsv1.DeploymentList{}, "stamped", func(d *appsv1.Deployment) bool {
		return d.Labels[api.LabelType] == "agent" && d.Spec.Template.Annotations[api.AnnotationConfigHash] != ""
	})
	if stamped.Spec.Template.Labels["app"] != "web" || stamped.Labels[api.LabelManagedBy] != api.ManagedBy {
		t.Errorf("its labels are %v and %v", stamped.Labels, stamped.Spec.Template.Labels)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"rossoctl.io/config-hash":"mine"}}}}}`))
	if err := s.client.Patch(t.Context(), stamped, patch, client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}
	a := s.awaitRuntime("web", "a conflict", func(a *api.AgentRuntime) bool {
		return meta.IsStatusConditionTrue(a.Status.Conditions, api.ConditionConfigConflict)
	})
	if c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionConfigConflict); c.Reason != api.ReasonFieldConflict {
		t.Errorf("it says %+v", c)
	}
	give := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"rossoctl.io/config-hash":null}}}}}`))
	if err := s.client.Patch(t.Context(), stamped, give, client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}
	s.awaitRuntime("web", "no conflict", func(a *api.AgentRuntime) bool {
		return meta.IsStatusConditionFalse(a.Status.Conditions, api.ConditionConfigConflict)
	})
}

// publicController plays one round of a controller of Sandboxes that computes no
// revisions.
func (s *stage) publicController(box *agents.Sandbox) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: s.meta(box.Name)}
	pod.Labels = map[string]string{agents.LabelSandboxNameHash: agents.NameHash(box.Name)}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "agents.x-k8s.io/v1beta1", Kind: "Sandbox", Name: box.Name, UID: box.UID, Controller: ptr.To(true)}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox:1.36"}}
	if err := s.client.Create(s.t.Context(), pod); apierrors.IsAlreadyExists(err) {
		s.get(pod)
	} else if err != nil {
		s.t.Fatal(err)
	}
	status := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"DependenciesReady","message":"","lastTransitionTime":"2026-08-01T12:00:00Z","observedGeneration":%d}]}}`, box.Generation)
	if err := s.client.Status().Patch(s.t.Context(), box, client.RawPatch(types.MergePatchType, []byte(status))); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

func TestSandboxesOfAnotherControllerAreRolledOutAndMayGoWithTheirDefinition(t *testing.T) {
	s := newStage(t, true)
	s.kubelet()
	box := s.sandbox("box")
	s.create(box)
	first := s.publicController(box)
	s.create(s.runtime("box", "agents.x-k8s.io/v1beta1", "Sandbox"))
	box = await(s, box, &agents.SandboxList{}, "stamped", func(b *agents.Sandbox) bool {
		return b.Spec.PodTemplate.Metadata.Annotations[api.AnnotationConfigHash] != ""
	})
	s.publicController(box)
	await(s, &corev1.Pod{ObjectMeta: s.meta("box")}, &corev1.PodList{}, "the pod is deleted", func(*corev1.Pod) bool {
		return apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(first), &corev1.Pod{}))
	})
	s.publicController(box)
	a := s.awaitRuntime("box", "configured", configured)

	crds, err := deploy.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	var definition *unstructured.Unstructured
	for _, crd := range crds {
		if crd.GetName() == "sandboxes.agents.x-k8s.io" {
			definition = crd
		}
	}
	if err := s.client.Delete(t.Context(), definition.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	s.awaitRuntime("box", "the target is gone", func(a *api.AgentRuntime) bool {
		c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionTargetResolved)
		return c.Reason == api.ReasonTargetNotFound
	})
	if err := s.client.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s.awaitGone(a)

	if err := deploy.Install(t.Context(), clustertest.RESTConfig(t, cluster, "install")); err != nil {
		t.Fatal(err)
	}
	again := s.sandbox("again")
	s.create(again)
	s.create(s.runtime("again", "agents.x-k8s.io/v1beta1", "Sandbox"))
	await(s, again, &agents.SandboxList{}, "stamped", func(b *agents.Sandbox) bool {
		return b.Spec.PodTemplate.Metadata.Annotations[api.AnnotationConfigHash] != ""
	})
}
