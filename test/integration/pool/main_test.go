// SPDX-License-Identifier: Apache-2.0

// Package pool_test runs all controllers against a real API server, with nodes that only
// pretend to run pods, and looks at warm pools from the outside.
package pool_test

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/claim"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/warmpool"
)

// limit is for something that takes seconds to have happened on a slow machine.
const limit = 8 * time.Minute

var cluster *localcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(clustertest.Main(m, &cluster, clustertest.WithScheduler()))
}

// setUp installs Berth once; installed is whether that went well.
var (
	setUp     sync.Once
	installed bool
)

// world is one test's namespace, with all controllers running.
type world struct {
	*testing.T
	client.WithWatch
	namespace string
}

func newWorld(t *testing.T, options warmpool.Options) *world {
	t.Helper()
	setUp.Do(func() {
		managertest.Install(t, cluster)
		if err := cluster.FakeNodes(context.Background(), 3); err != nil {
			t.Fatal(err)
		}
		installed = true
	})
	if !installed {
		t.Fatal("Berth is not installed: see the first test's failure")
	}
	scheme := manager.Scheme()
	if err := eventsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "test"), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, WithWatch: c}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pools-"}}
	w.must(w.Create(w.Context(), namespace))
	w.namespace = namespace.Name
	managertest.Start(t, cluster, managertest.Options{Controllers: []manager.Controller{
		{Events: "sandbox-controller", Workers: 50, New: func(env control.Environment, views kinds.Views) control.Controller {
			return sandbox.New(env, views, sandbox.Options{})
		}},
		{Events: "sandboxtemplate-controller", New: func(env control.Environment, views kinds.Views) control.Controller {
			return template.New(env, views)
		}},
		{Events: "sandboxwarmpool-controller", New: func(env control.Environment, views kinds.Views) control.Controller {
			return warmpool.New(env, views, options)
		}},
		{Events: "sandboxclaim-controller", Workers: 50, New: func(env control.Environment, views kinds.Views) control.Controller {
			return claim.New(env, views, claim.Options{})
		}},
	}})
	// The next test's controllers would see to what is left.
	t.Cleanup(func() { w.deleteNamespace(namespace) })
	return w
}

func (w *world) deleteNamespace(namespace *corev1.Namespace) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	watcher, err := w.Watch(ctx, &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": namespace.Name})
	if err != nil {
		w.Error(err)
		return
	}
	defer watcher.Stop()
	if err := w.Delete(ctx, namespace); err != nil {
		w.Error(err)
		return
	}
	for event := range watcher.ResultChan() {
		if event.Type == watch.Deleted {
			return
		}
	}
	w.Errorf("namespace %s does not go away", namespace.Name)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

// template makes a template whose pods have the annotations.
func (w *world) template(name string, annotations map[string]string, edits ...func(*corev1.PodSpec)) *extensions.SandboxTemplate {
	w.Helper()
	t := &extensions.SandboxTemplate{ObjectMeta: w.meta(name)}
	t.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "old"}}
	t.Spec.PodTemplate.Metadata.Annotations = annotations
	for _, edit := range edits {
		edit(&t.Spec.PodTemplate.Spec)
	}
	w.must(w.Create(w.Context(), t))
	return t
}

func (w *world) newPool(name string, replicas int32, edits ...func(*extensions.SandboxWarmPool)) *extensions.SandboxWarmPool {
	w.Helper()
	p := &extensions.SandboxWarmPool{ObjectMeta: w.meta(name)}
	p.Spec.Replicas, p.Spec.TemplateRef.Name = ptr.To(replicas), "python"
	for _, edit := range edits {
		edit(p)
	}
	w.must(w.Create(w.Context(), p))
	return p
}

func (w *world) claim(name, pool string) *extensions.SandboxClaim {
	w.Helper()
	c := &extensions.SandboxClaim{ObjectMeta: w.meta(name), Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: pool}}}
	w.must(w.Create(w.Context(), c))
	return c
}

// patch is a merge patch.
func (w *world) patch(obj client.Object, subresource string, body any) {
	w.Helper()
	text, err := json.Marshal(body)
	w.must(err)
	patch := client.RawPatch(types.MergePatchType, text)
	target := obj.DeepCopyObject().(client.Object)
	if subresource != "" {
		w.must(w.SubResource(subresource).Patch(w.Context(), target, patch))
		return
	}
	w.must(w.WithWatch.Patch(w.Context(), target, patch))
}

// await waits until the object is as wanted. It is asked for again with every change of
// its kind in the namespace, and is nil while it does not exist.
func await[T client.Object](w *world, list client.ObjectList, obj T, what string, wanted func(obj T, there bool) bool) T {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	for {
		watcher, err := w.Watch(ctx, list, client.InNamespace(w.namespace))
		if err != nil {
			w.Fatalf("%s: %v", what, err)
		}
		for open := true; open; _, open = <-watcher.ResultChan() { // a server may end a watch at any time
			err := w.Get(ctx, client.ObjectKeyFromObject(obj), obj)
			if err != nil && !apierrors.IsNotFound(err) {
				text, _ := json.Marshal(obj)
				w.Fatalf("waited too long for %s: %v; last: %s", what, err, text)
			}
			if wanted(obj, err == nil) {
				watcher.Stop()
				return obj
			}
		}
		watcher.Stop()
	}
}

func (w *world) awaitPool(p *extensions.SandboxWarmPool, what string, wanted func(*extensions.SandboxWarmPool) bool) *extensions.SandboxWarmPool {
	w.Helper()
	return await(w, &extensions.SandboxWarmPoolList{}, p, what, func(p *extensions.SandboxWarmPool, there bool) bool { return there && wanted(p) })
}

// full waits until the pool has all its members, ready and of its template.
func (w *world) full(p *extensions.SandboxWarmPool) *extensions.SandboxWarmPool {
	w.Helper()
	return w.awaitPool(p, "pool "+p.Name+" to be full", func(p *extensions.SandboxWarmPool) bool {
		n := p.DesiredReplicas()
		return p.Status.ReadyReplicas == n && p.Status.Replicas == n && p.Status.UpdatedReplicas == n &&
			p.Status.ObservedGeneration == p.Generation && progressing(p).Reason == extensions.ReasonComplete
	})
}

func progressing(p *extensions.SandboxWarmPool) metav1.Condition {
	if c := meta.FindStatusCondition(p.Status.Conditions, extensions.ConditionProgressing); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func (w *world) ready(name string) *extensions.SandboxClaim {
	w.Helper()
	return w.readyAs(name, metav1.ConditionTrue, agents.ReasonDependenciesReady)
}

func (w *world) readyAs(name string, status metav1.ConditionStatus, reason string) *extensions.SandboxClaim {
	w.Helper()
	return await(w, &extensions.SandboxClaimList{}, &extensions.SandboxClaim{ObjectMeta: w.meta(name)}, "claim "+name+" to be "+reason, func(c *extensions.SandboxClaim, there bool) bool {
		ready := meta.FindStatusCondition(c.Status.Conditions, agents.ConditionReady)
		return there && ready != nil && ready.Status == status && ready.Reason == reason
	})
}

// members are the Sandboxes that the pool controls.
func (w *world) members(p *extensions.SandboxWarmPool) map[string]agents.Sandbox {
	w.Helper()
	var list agents.SandboxList
	w.must(w.List(w.Context(), &list, client.InNamespace(w.namespace)))
	members := map[string]agents.Sandbox{}
	for _, s := range list.Items {
		if control.IsControlledBy(&s, p.UID) {
			members[s.Name] = s
		}
	}
	return members
}

// events counts the events in the namespace by type and reason.
func (w *world) events() map[string]int {
	w.Helper()
	var list eventsv1.EventList
	w.must(w.List(w.Context(), &list, client.InNamespace(w.namespace)))
	counts := map[string]int{}
	for _, e := range list.Items {
		counts[e.Type+" "+e.Reason]++
	}
	return counts
}

// awaitEvent waits for an event of that type and reason.
func (w *world) awaitEvent(event string) {
	w.Helper()
	none := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	await(w, &eventsv1.EventList{}, none, "event "+event, func(*corev1.Namespace, bool) bool { return w.events()[event] > 0 })
}
