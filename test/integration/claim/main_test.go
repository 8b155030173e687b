// SPDX-License-Identifier: Apache-2.0

// Package claim_test runs all controllers against a real API server, with nodes that
// only pretend to run pods, and looks at claims from the outside.
package claim_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// limit is for something that takes seconds to have happened, or a minute or two if it is
// thousands of things, on a slow machine.
const limit = 20 * time.Minute

var cluster *localcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(clustertest.Main(m, &cluster, clustertest.WithAudit(), clustertest.WithScheduler()))
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
	manager   *managertest.Manager
	passes    *passes
}

// beside is a second namespace of the same test, under the same controllers.
func (w *world) beside() *world {
	w.Helper()
	other := *w
	other.namespace = w.newNamespace()
	return &other
}

func (w *world) newNamespace() string {
	w.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "claims-"}}
	w.must(w.Create(w.Context(), namespace))
	w.Cleanup(func() { w.deleteNamespace(namespace) })
	return namespace.Name
}

// deleteNamespace deletes a namespace and waits until all in it is gone: the next
// test's controllers would see to what is left.
func (w *world) deleteNamespace(namespace *corev1.Namespace) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := w.Delete(ctx, namespace); err != nil {
		w.Error(err)
		return
	}
	watcher, err := w.Watch(ctx, &corev1.NamespaceList{}, client.MatchingFields{"metadata.name": namespace.Name})
	if err != nil {
		w.Error(err)
		return
	}
	defer watcher.Stop()
	if err := w.Get(ctx, client.ObjectKeyFromObject(namespace), &corev1.Namespace{}); apierrors.IsNotFound(err) {
		return
	}
	for event := range watcher.ResultChan() {
		if event.Type == watch.Deleted {
			return
		}
	}
	w.Errorf("namespace %s does not go away", namespace.Name)
}

// newWorld starts the controllers and makes a namespace for the test.
func newWorld(t *testing.T) *world {
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
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "test"), client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, WithWatch: c, passes: newPasses(c)}
	w.namespace = w.newNamespace()
	w.manager = managertest.Start(t, cluster, managertest.Options{Controllers: w.controllers()})
	return w
}

func (w *world) controllers() []manager.Controller {
	return []manager.Controller{
		{Events: "sandbox-controller", Workers: 50, New: func(env control.Environment, views kinds.Views) control.Controller {
			return sandbox.New(env, views, sandbox.Options{})
		}},
		{Events: "sandboxtemplate-controller", Workers: 1, New: func(env control.Environment, views kinds.Views) control.Controller {
			return template.New(env, views)
		}},
		{Events: "sandboxwarmpool-controller", Workers: 2, New: func(env control.Environment, views kinds.Views) control.Controller {
			return warmpool.New(env, views, warmpool.Options{})
		}},
		{Events: "sandboxclaim-controller", Workers: 50, New: func(env control.Environment, views kinds.Views) control.Controller {
			return &counted{claim.New(env, views, claim.Options{}), w.passes}
		}},
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.namespace, Name: name}
}

// template makes a template of one sleeping container.
func (w *world) template(name string, edits ...func(*extensions.SandboxTemplate)) *extensions.SandboxTemplate {
	w.Helper()
	t := &extensions.SandboxTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: extensions.SandboxTemplateSpec{SandboxBlueprint: agents.SandboxBlueprint{PodTemplate: agents.PodTemplate{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36", Command: []string{"sleep", "3600"}}}},
		}}},
	}
	for _, edit := range edits {
		edit(t)
	}
	w.must(w.Create(w.Context(), t))
	return t
}

// pool makes a pool and waits until it is full.
func (w *world) pool(name, template string, replicas int32, edits ...func(*extensions.SandboxWarmPool)) *extensions.SandboxWarmPool {
	w.Helper()
	p := &extensions.SandboxWarmPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       extensions.SandboxWarmPoolSpec{Replicas: ptr.To(replicas), TemplateRef: extensions.SandboxTemplateRef{Name: template}},
	}
	for _, edit := range edits {
		edit(p)
	}
	w.must(w.Create(w.Context(), p))
	w.full(name, replicas)
	return p
}

// full waits until the pool has so many ready members and nothing left to do.
func (w *world) full(name string, replicas int32) {
	w.Helper()
	await(w, &extensions.SandboxWarmPoolList{}, fmt.Sprintf("pool %s to have %d ready members", name, replicas), func(p *extensions.SandboxWarmPool) bool {
		progressing := findCondition(p.Status.Conditions, extensions.ConditionProgressing)
		return p.Name == name && p.Status.ReadyReplicas == replicas && p.Status.Replicas == replicas &&
			progressing != nil && progressing.Reason == extensions.ReasonComplete && p.Status.ObservedGeneration == p.Generation
	})
}

func (w *world) newClaim(name, pool string, edits ...func(*extensions.SandboxClaim)) *extensions.SandboxClaim {
	c := &extensions.SandboxClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: pool}},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// claim makes a claim.
func (w *world) claim(name, pool string, edits ...func(*extensions.SandboxClaim)) *extensions.SandboxClaim {
	w.Helper()
	c := w.newClaim(name, pool, edits...)
	w.must(w.Create(w.Context(), c))
	return c
}

// claims makes claims side by side, as many clients would.
func (w *world) claims(pool string, names ...string) {
	w.Helper()
	errors := make([]error, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { errors[i] = w.Create(w.Context(), w.newClaim(name, pool)) })
	}
	group.Wait()
	for _, err := range errors {
		w.must(err)
	}
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return all
}

// ready waits until the claim is Ready.
func (w *world) ready(name string) *extensions.SandboxClaim {
	w.Helper()
	return w.condition(name, agents.ConditionReady, metav1.ConditionTrue, "")
}

// condition waits until the claim has a condition; an empty reason is any.
func (w *world) condition(name, kind string, status metav1.ConditionStatus, reason string) *extensions.SandboxClaim {
	w.Helper()
	return await(w, &extensions.SandboxClaimList{}, fmt.Sprintf("claim %s to be %s=%s %s", name, kind, status, reason), func(c *extensions.SandboxClaim) bool {
		if c.Name != name {
			return false
		}
		for _, condition := range c.Status.Conditions {
			if condition.Type == kind && condition.Status == status && (reason == "" || condition.Reason == reason) {
				return true
			}
		}
		return false
	})
}

// gone waits until the object does not exist.
func (w *world) gone(obj client.Object) {
	w.Helper()
	watcher, err := w.Watch(w.Context(), listFor(obj), client.InNamespace(w.namespace))
	w.must(err)
	defer watcher.Stop()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		// After the watch began: its first events are of what is there, which may be nothing.
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj); apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-watcher.ResultChan():
		case <-timeout.C:
			w.Fatalf("waited too long until %s is gone", obj.GetName())
		}
	}
}

func listFor(obj client.Object) client.ObjectList {
	switch obj.(type) {
	case *agents.Sandbox:
		return &agents.SandboxList{}
	case *corev1.Pod:
		return &corev1.PodList{}
	default:
		return &extensions.SandboxClaimList{}
	}
}

// await returns the first object that is as wanted, by a watch from the beginning.
func await[T client.Object](w *world, list client.ObjectList, what string, wanted func(T) bool) T {
	w.Helper()
	for event := range w.changes(list, what) {
		if obj, ok := event.Object.(T); ok && event.Type != watch.Deleted && wanted(obj) {
			return obj
		}
	}
	panic("unreachable")
}

// changes yields the objects of a kind in the namespace, and then their changes. The
// test fails when it waits for more than the limit.
func (w *world) changes(list client.ObjectList, what string) func(yield func(watch.Event) bool) {
	return func(yield func(watch.Event) bool) {
		w.Helper()
		timeout := time.NewTimer(limit)
		defer timeout.Stop()
		for {
			watcher, err := w.Watch(w.Context(), list, client.InNamespace(w.namespace))
			w.must(err)
			again := w.yieldFrom(watcher, timeout.C, what, yield)
			watcher.Stop()
			if !again {
				return
			}
		}
	}
}

// yieldFrom yields what a watch brings, and reports whether it ended before it was done
// with: a server may end a watch at any time.
func (w *world) yieldFrom(watcher watch.Interface, timeout <-chan time.Time, what string, yield func(watch.Event) bool) bool {
	w.Helper()
	for {
		select {
		case event, ok := <-watcher.ResultChan():
			if !ok || event.Type == watch.Error {
				return true
			}
			if !yield(event) {
				return false
			}
		case <-timeout:
			w.Fatalf("waited too long for %s", what)
		}
	}
}

func (w *world) sandboxes() []agents.Sandbox {
	w.Helper()
	var list agents.SandboxList
	w.must(w.List(w.Context(), &list, client.InNamespace(w.namespace)))
	return list.Items
}

func (w *world) pods() []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace(w.namespace)))
	return list.Items
}

// eventually waits for something in this process that has no event, looking again at
// every change in the namespace and at least ten times a second.
func (w *world) eventually(what string, happened func() bool) {
	w.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-timeout.C:
			w.Fatalf("waited too long for %s", what)
		}
	}
}

func findCondition(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}
