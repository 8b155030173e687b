// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/kinds"
)

// source is where a claim's Sandbox comes from.
type source struct {
	// PoolName is empty for a claim that names a template and no pool.
	PoolName string
	// Pool is nil if it does not exist, which a live read proved.
	Pool *extensions.SandboxWarmPool
	// TemplateName is empty if neither claim nor pool says.
	TemplateName string
	// Template is nil if it does not exist, which a live read proved.
	Template *extensions.SandboxTemplate
	// Blueprint is set if members of another blueprint must not be handed out.
	Blueprint *blueprint.Blueprint
	// OwnTemplate is true if the claim names the template, and takes from any pool of it.
	// Members that such a pool still has of another template are not for it.
	OwnTemplate bool
}

// supply finds pools and templates. Where old members must not be handed out it reads
// them live, and lets the claims that ask at the same time share one read.
type supply struct {
	views   kinds.Views
	newLock func() sync.Locker

	mu      sync.Mutex
	flights map[types.NamespacedName]*flight
}

// flight is the live read of one pool and its template that claims share.
type flight struct {
	reading   sync.Locker // held across the requests
	asking    int         // callers that hold or wait for the flight
	completed int
	source    source

	started int // guarded by supply.mu
}

func newSupply(views kinds.Views, newLock func() sync.Locker) *supply {
	return &supply{views: views, newLock: newLock, flights: map[types.NamespacedName]*flight{}}
}

// fromPool resolves a pool and its template.
//
// Freshness (R7): under Recreate, the one strategy that forbids older members, they
// come from a quorum read that started after this call. A template edit that was
// acknowledged before the claim was created is then always seen. The same is done
// before a template counts as missing.
func (s *supply) fromPool(ctx context.Context, key types.NamespacedName) (source, error) {
	pool, err := s.pool(ctx, key)
	if err != nil || pool == nil {
		return source{PoolName: key.Name}, err
	}
	if pool.UpdateStrategyType() == extensions.WarmPoolRecreate {
		return s.fresh(ctx, key)
	}
	found := source{PoolName: key.Name, Pool: pool, TemplateName: pool.Spec.TemplateRef.Name}
	found.Template, err = s.template(ctx, types.NamespacedName{Namespace: key.Namespace, Name: found.TemplateName})
	if err == nil && found.Template == nil {
		// The template is gone, and the pool may have named it only in the past.
		return s.fresh(ctx, key)
	}
	return found, err
}

// fromTemplate resolves a template that a claim names itself.
func (s *supply) fromTemplate(ctx context.Context, key types.NamespacedName) (source, error) {
	template, err := s.template(ctx, key)
	return source{TemplateName: key.Name, Template: template}, err
}

// pool reads a pool; its absence is read live.
func (s *supply) pool(ctx context.Context, key types.NamespacedName) (*extensions.SandboxWarmPool, error) {
	pool, ok, err := s.views.WarmPools.Get(ctx, key)
	if err != nil || ok {
		return pool, err
	}
	pool, ok, err = s.views.WarmPools.Live(ctx, key)
	if err != nil || !ok {
		return nil, err
	}
	return pool, nil
}

// template reads a template; its absence is read live.
func (s *supply) template(ctx context.Context, key types.NamespacedName) (*extensions.SandboxTemplate, error) {
	template, ok, err := s.views.Templates.Get(ctx, key)
	if err != nil || ok {
		return template, err
	}
	template, ok, err = s.views.Templates.Live(ctx, key)
	if err != nil || !ok {
		return nil, err
	}
	return template, nil
}

// fresh returns the result of a live read that started after the call. Callers that
// arrive while a read is under way share the next one.
func (s *supply) fresh(ctx context.Context, key types.NamespacedName) (source, error) {
	s.mu.Lock()
	f, ok := s.flights[key]
	if !ok {
		f = &flight{reading: s.newLock()}
		s.flights[key] = f
	}
	arrived := f.started
	f.asking++
	s.mu.Unlock()
	defer s.land(key, f)

	f.reading.Lock()
	defer f.reading.Unlock()
	if f.completed > arrived {
		return f.source, nil
	}
	s.mu.Lock()
	f.started++
	number := f.started
	s.mu.Unlock()
	found, err := s.readLive(ctx, key)
	if err != nil {
		return source{PoolName: key.Name}, err
	}
	f.completed, f.source = number, found
	return found, nil
}

// land forgets a flight nobody asks for any more.
func (s *supply) land(key types.NamespacedName, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.asking--; f.asking == 0 {
		delete(s.flights, key)
	}
}

func (s *supply) readLive(ctx context.Context, key types.NamespacedName) (source, error) {
	found := source{PoolName: key.Name}
	pool, ok, err := s.views.WarmPools.Live(ctx, key)
	if err != nil || !ok {
		return found, err
	}
	found.Pool, found.TemplateName = pool, pool.Spec.TemplateRef.Name
	template, ok, err := s.views.Templates.Live(ctx, types.NamespacedName{Namespace: key.Namespace, Name: found.TemplateName})
	if err != nil || !ok {
		return found, err
	}
	found.Template = template
	if pool.UpdateStrategyType() == extensions.WarmPoolRecreate {
		found.Blueprint = blueprint.Of(template)
	}
	return found, nil
}
