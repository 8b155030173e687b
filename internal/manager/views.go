// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentruntime "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
)

// sweepInterval is how often what the informers have caught up with is dropped from
// the views.
const sweepInterval = time.Second

// Scheme returns a scheme of all types the controllers use.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, agents.AddToScheme, extensions.AddToScheme, agentruntime.AddToScheme,
	} {
		utilruntime.Must(add(scheme)) // fails only if a type is declared twice
	}
	return scheme
}

// store is one kind's informer and view, whatever its type.
type store struct {
	resource string
	gvr      schema.GroupVersionResource
	version  func() uint64 // how far the informer is
	synced   func() bool
	check    func() error
	sweep    func(context.Context) error
	lag      func() consistent.Lag
}

// transforms says, for every kind, what to leave out of memory.
func transforms(o Options) map[client.Object]cache.ByObject {
	by := map[client.Object]cache.ByObject{}
	slim(by, kinds.Pods())
	if !o.SandboxesElsewhere {
		slim(by, kinds.Sandboxes())
		slim(by, kinds.Services())
		slim(by, kinds.VolumeClaims())
	}
	if o.AgentRuntimes {
		slim(by, kinds.AgentRuntimes())
		slim(by, kinds.Deployments())
		slim(by, kinds.StatefulSets())
		slim(by, kinds.ReplicaSets())
		slim(by, kinds.ConfigMaps())
	}
	if o.Extensions {
		slim(by, kinds.Templates())
		slim(by, kinds.WarmPools())
		slim(by, kinds.Claims())
		slim(by, kinds.NetworkPolicies())
	}
	return by
}

func slim[T client.Object](by map[client.Object]cache.ByObject, kind kinds.Kind[T]) {
	by[kind.New()] = cache.ByObject{Transform: func(item any) (any, error) {
		obj, ok := item.(T)
		if !ok {
			return item, nil // the tombstone of a missed delete
		}
		return kind.Slim(obj), nil
	}}
}

func (m *Manager) buildViews(config *rest.Config, writes *http.Client, o Options) (kinds.Views, error) {
	b := &viewBuilder{manager: m, server: consistent.Server{Config: config, HTTP: writes, Scheme: m.manager.GetScheme()}}
	views := kinds.Views{Pods: view(b, kinds.Pods())}
	if o.SandboxesElsewhere {
		var err error
		if m.served, err = newServedSandboxes(config, m.watches, writes); err != nil {
			return views, err
		}
		views.Sandboxes = m.served
	} else {
		views.Sandboxes = view(b, kinds.Sandboxes())
		views.Services = view(b, kinds.Services())
		views.VolumeClaims = view(b, kinds.VolumeClaims())
		if b.err == nil {
			b.err = m.census.watch(m.manager.GetCache())
		}
	}
	if o.AgentRuntimes {
		views.AgentRuntimes = view(b, kinds.AgentRuntimes())
		views.Deployments = view(b, kinds.Deployments())
		views.StatefulSets = view(b, kinds.StatefulSets())
		views.ReplicaSets = view(b, kinds.ReplicaSets())
		views.ConfigMaps = view(b, kinds.ConfigMaps())
	}
	if o.Extensions {
		views.Templates = view(b, kinds.Templates())
		views.WarmPools = view(b, kinds.WarmPools())
		views.Claims = view(b, kinds.Claims())
		views.NetworkPolicies = view(b, kinds.NetworkPolicies())
	}
	return views, b.err
}

// viewBuilder makes views; err is what went wrong with the first that failed.
type viewBuilder struct {
	manager *Manager
	server  consistent.Server
	err     error
}

// view makes the informer and the view of one kind. It returns nil once one failed.
func view[T client.Object](b *viewBuilder, kind kinds.Kind[T]) consistent.Kind[T] {
	if b.err != nil {
		return nil
	}
	made, err := newView(b, kind)
	if err != nil {
		b.err = fmt.Errorf("watch %s: %w", kind.Resource, err)
		return nil
	}
	return made
}

func newView[T client.Object](b *viewBuilder, kind kinds.Kind[T]) (consistent.Kind[T], error) {
	found, err := b.manager.manager.GetCache().GetInformer(context.Background(), kind.New(), cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	informer, ok := found.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("the informer is a %T, which hides its store: the cache must be of all namespaces", found)
	}
	if err := informer.AddIndexers(consistent.Indexers(kind.Indexes)); err != nil {
		return nil, err
	}
	api, err := consistent.NewAPI[T](b.server, kind.GVK, kind.Resource)
	if err != nil {
		return nil, err
	}
	items := consistent.FromIndexer(informer.GetIndexer())
	made := consistent.New(consistent.Options[T]{
		Name: kind.Resource, API: api, Store: items, Clock: clock.RealClock{}, Indexes: kind.Indexes, Transform: kind.Slim,
		Vanished:  func(last T) { b.manager.wakers.tell(last, last, nil, b.manager.queues.wake) },
		LookAgain: func(now T) { b.manager.wakers.tell(now, nil, now, b.manager.queues.wake) },
	})
	if err := tellOf(informer, made.Told); err != nil {
		return nil, err
	}
	b.manager.stores = append(b.manager.stores, store{
		resource: kind.Resource,
		gvr:      kind.GVK.GroupVersion().WithResource(kind.Resource),
		version:  items.Version,
		synced:   informer.HasSynced,
		check:    func() error { return consistent.CheckVersion(items) },
		sweep:    made.Sweep,
		lag:      made.Lag,
	})
	return made, nil
}

// tellOf lets a view know what the informer has told its handlers of.
func tellOf[T client.Object](informer toolscache.SharedIndexInformer, told func(T)) error {
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { told(obj.(T)) },
		UpdateFunc: func(_, after any) { told(after.(T)) },
	})
	return err
}

// check lets the controllers run once it is sure that the views can be trusted. An
// error ends the manager.
func (m *Manager) check(ctx context.Context) error {
	for _, s := range m.stores {
		if err := s.check(); err != nil {
			return fmt.Errorf("watch %s: %w", s.resource, err)
		}
	}
	close(m.checked)
	<-ctx.Done()
	return nil
}

// sweep keeps the views small until ctx ends.
func (m *Manager) sweep(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, s := range m.stores {
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				logr.FromContextOrDiscard(ctx).Error(err, "Could not reread what the informer lost track of", "resource", s.resource)
			}
		}
		if m.served == nil {
			continue
		}
		if err := m.served.sweep(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "Could not reread what the informer lost track of", "resource", "sandboxes")
		}
	}
}

// ready is the readiness check: every informer has synced and is not too far behind.
func (m *Manager) ready(*http.Request) error {
	select {
	case <-m.checked:
	default:
		return errors.New("the informers have not synced")
	}
	for _, s := range m.stores {
		if !s.synced() {
			return fmt.Errorf("the informer of %s has not synced", s.resource)
		}
		if lag := s.lag(); lag.Behind() {
			return fmt.Errorf("the informer of %s is behind: %d writes not seen, the oldest made %s ago", s.resource, lag.Entries, lag.Oldest)
		}
	}
	return nil
}
