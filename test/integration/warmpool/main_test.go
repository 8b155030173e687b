// SPDX-License-Identifier: Apache-2.0

// Package warmpool_test runs the controller of warm pools against a real API server.
// The tests play the Sandbox controller, the claims and the garbage collector.
package warmpool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
	"github.com/berthdev/berth/internal/warmpool"
)

// limit is for something that happens at once to have happened on a slow machine.
const limit = time.Minute

var (
	cluster   *localcluster.Cluster
	installed sync.Once
)

func TestMain(m *testing.M) {
	os.Exit(clustertest.Main(m, &cluster, clustertest.WithAudit()))
}

// stage is a namespace with a running controller, and a player who makes Sandboxes
// Ready and lets deleted ones go.
type stage struct {
	t         *testing.T
	ctx       context.Context
	client    client.WithWatch
	namespace string
	manager   *managertest.Manager
	player    *player
}

func newStage(t *testing.T, options warmpool.Options, configure ...func(*rest.Config)) *stage {
	t.Helper()
	installed.Do(func() { managertest.Install(t, cluster) })
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "test"), client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pool-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, ctx: t.Context(), client: c, namespace: ns.Name}
	s.player = play(t, c, ns.Name)
	s.manager = managertest.Start(t, cluster, managertest.Options{
		Controllers: []manager.Controller{{
			Events: "sandboxwarmpool-controller",
			New: func(env control.Environment, views kinds.Views) control.Controller {
				return warmpool.New(env, views, options)
			},
		}},
		Config: func(config *rest.Config) {
			for _, change := range configure {
				change(config)
			}
		},
	})
	return s
}

// player plays what else goes on in a namespace.
type player struct {
	mu       sync.Mutex
	present  map[string]*agents.Sandbox
	most     map[types.UID]int // by controller, the most Sandboxes there were at a time
	unready  bool              // Sandboxes do not become Ready
	lingered chan struct{}     // deleted Sandboxes go when it is closed; nil is at once
}

func play(t *testing.T, c client.WithWatch, namespace string) *player {
	t.Helper()
	p := &player{present: map[string]*agents.Sandbox{}, most: map[types.UID]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := c.Watch(ctx, &agents.SandboxList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for event := range w.ResultChan() {
			sandbox, ok := event.Object.(*agents.Sandbox)
			if !ok {
				continue
			}
			linger, unready := p.see(event.Type, sandbox)
			work.Go(func() {
				if err := act(ctx, c, sandbox, linger, unready); err != nil && ctx.Err() == nil {
					t.Errorf("play sandbox %s: %v", sandbox.Name, err)
				}
			})
		}
	})
	t.Cleanup(func() { cancel(); work.Wait() })
	return p
}

// see counts a Sandbox, and returns how long it lingers when it is deleted and whether
// it stays unready.
func (p *player) see(event watch.EventType, s *agents.Sandbox) (<-chan struct{}, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if event == watch.Deleted {
		delete(p.present, s.Name)
		return nil, true
	}
	p.present[s.Name] = s
	counts := map[types.UID]int{}
	for _, one := range p.present {
		if ref := metav1.GetControllerOf(one); ref != nil {
			counts[ref.UID]++
		}
	}
	for uid, n := range counts {
		p.most[uid] = max(p.most[uid], n)
	}
	return p.lingered, p.unready
}

func (p *player) mostOf(uid types.UID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most[uid]
}

func (p *player) set(change func(*player)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// act makes a Sandbox Ready, or gone.
func act(ctx context.Context, c client.Client, s *agents.Sandbox, linger <-chan struct{}, unready bool) error {
	switch {
	case s.DeletionTimestamp != nil && len(s.Finalizers) > 0:
		if linger != nil {
			select {
			case <-linger:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return client.IgnoreNotFound(patch(ctx, c, s, "", map[string]any{"metadata": map[string]any{"finalizers": nil}}))
	case s.DeletionTimestamp == nil && !unready && len(s.Status.Conditions) == 0:
		return client.IgnoreNotFound(patch(ctx, c, s, "status", statusPatch(agents.ConditionReady, metav1.ConditionTrue, agents.ReasonDependenciesReady)))
	default:
		return nil
	}
}

func statusPatch(name string, status metav1.ConditionStatus, reason string) map[string]any {
	return map[string]any{"status": map[string]any{"conditions": []metav1.Condition{
		{Type: name, Status: status, Reason: reason, LastTransitionTime: metav1.Now()},
	}}}
}

func patch(ctx context.Context, c client.Client, obj client.Object, subresource string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	target := obj.DeepCopyObject().(client.Object)
	if subresource != "" {
		return c.SubResource(subresource).Patch(ctx, target, client.RawPatch(types.MergePatchType, text))
	}
	return c.Patch(ctx, target, client.RawPatch(types.MergePatchType, text))
}

func (s *stage) patch(obj client.Object, subresource string, body any) {
	s.t.Helper()
	if err := patch(s.ctx, s.client, obj, subresource, body); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) create(obj client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.ctx, obj); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) template(name, image string) *extensions.SandboxTemplate {
	t := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	t.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
	return t
}

func (s *stage) pool(replicas int32, strategy extensions.SandboxWarmPoolUpdateStrategyType) *extensions.SandboxWarmPool {
	p := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "fast"}}
	p.Spec.Replicas = ptr.To(replicas)
	p.Spec.TemplateRef.Name = "python"
	p.Spec.UpdateStrategy = &extensions.SandboxWarmPoolUpdateStrategy{Type: strategy}
	return p
}

// filled creates template and pool and waits until the pool is full.
func (s *stage) filled(replicas int32, strategy extensions.SandboxWarmPoolUpdateStrategyType) *extensions.SandboxWarmPool {
	s.t.Helper()
	s.create(s.template("python", "old"))
	pool := s.pool(replicas, strategy)
	s.create(pool)
	return s.await(pool, "is full", full(replicas))
}

func full(replicas int32) func(*extensions.SandboxWarmPool) bool {
	return func(p *extensions.SandboxWarmPool) bool {
		return p.Status.Replicas == replicas && p.Status.ReadyReplicas == replicas && p.Status.ObservedGeneration == p.Generation &&
			progressing(extensions.ReasonComplete)(p)
	}
}

func progressing(reason string) func(*extensions.SandboxWarmPool) bool {
	return func(p *extensions.SandboxWarmPool) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, extensions.ConditionProgressing)
		return c != nil && c.Reason == reason
	}
}

// await waits until the pool is as it should be, and returns it.
func (s *stage) await(pool *extensions.SandboxWarmPool, what string, is func(*extensions.SandboxWarmPool) bool) *extensions.SandboxWarmPool {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	w, err := s.client.Watch(ctx, &extensions.SandboxWarmPoolList{}, client.InNamespace(s.namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", pool.Name)})
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Stop()
	var last *extensions.SandboxWarmPool
	for event := range w.ResultChan() {
		if seen, ok := event.Object.(*extensions.SandboxWarmPool); ok {
			if last = seen; is(seen) {
				return seen
			}
		}
	}
	text := "nothing"
	if last != nil {
		status, _ := json.MarshalIndent(last.Status, "", " ")
		text = string(status)
	}
	s.t.Fatalf("pool %s never %s; last status: %s", pool.Name, what, text)
	return nil
}

// awaitMembers waits until the members of the pool are as they should be.
func (s *stage) awaitMembers(pool *extensions.SandboxWarmPool, what string, is func([]agents.Sandbox) bool) []agents.Sandbox {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	w, err := s.client.Watch(ctx, &agents.SandboxList{}, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Stop()
	var members []agents.Sandbox
	for {
		if members = s.members(pool); is(members) {
			return members
		}
		if _, ok := <-w.ResultChan(); !ok {
			s.t.Fatalf("members of pool %s never were %s; last: %s", pool.Name, what, describe(members))
		}
	}
}

func describe(members []agents.Sandbox) string {
	text := ""
	for _, m := range members {
		text += fmt.Sprintf("%s (%s, deleted %v) ", m.Name, m.Spec.PodTemplate.Spec.Containers[0].Image, m.DeletionTimestamp)
	}
	return text
}

// members lists the Sandboxes that the pool controls.
func (s *stage) members(pool *extensions.SandboxWarmPool) []agents.Sandbox {
	s.t.Helper()
	var list agents.SandboxList
	if err := s.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	var members []agents.Sandbox
	for _, one := range list.Items {
		if control.IsControlledBy(&one, pool.UID) {
			members = append(members, one)
		}
	}
	return members
}

func (s *stage) exists(obj client.Object) bool {
	s.t.Helper()
	err := s.client.Get(s.ctx, client.ObjectKeyFromObject(obj), obj)
	if err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
	return err == nil
}
