// SPDX-License-Identifier: Apache-2.0

// Package warmpool keeps the members of SandboxWarmPools: Sandboxes that wait, ready,
// for a claim to adopt them.
//
// A member is a Sandbox whose controller is the pool's UID, and nothing else is. There
// are never more of them than the pool's replicas, those on their way out and those
// whose creation may still land included.
package warmpool

import (
	"context"
	"errors"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// Options tune all pools. A zero field has the default.
type Options struct {
	// MaxBatchSize is how many members are created or deleted side by side. The
	// default is 300.
	MaxBatchSize int
	// ReadinessGracePeriod is how long a member may be not Ready before anybody asks
	// why. The default is 5 minutes.
	ReadinessGracePeriod time.Duration
	// UnschedulableRecheckInterval is how often the pods of members that are held are
	// looked at again. The default is 1 minute.
	UnschedulableRecheckInterval time.Duration
	// ReplenishDelay is how long to wait after members left before new ones are made.
	// The default is not at all.
	ReplenishDelay time.Duration
	// MaxRefillRate is how many members one pool may create in a second. 0, the
	// default, is without limit.
	MaxRefillRate float64
}

func (o Options) withDefaults() Options {
	if o.MaxBatchSize <= 0 {
		o.MaxBatchSize = 300
	}
	if o.ReadinessGracePeriod <= 0 {
		o.ReadinessGracePeriod = 5 * time.Minute
	}
	if o.UnschedulableRecheckInterval <= 0 {
		o.UnschedulableRecheckInterval = time.Minute
	}
	return o
}

// Reconciler reconciles SandboxWarmPools.
type Reconciler struct {
	env      control.Environment
	views    kinds.Views
	options  Options
	memories memories
}

var _ control.Controller = (*Reconciler)(nil)

// New returns the controller of warm pools.
func New(env control.Environment, views kinds.Views, o Options) *Reconciler {
	return &Reconciler{env: env, views: views, options: o.withDefaults(), memories: newMemories()}
}

// Name implements control.Controller.
func (r *Reconciler) Name() string { return "warmpool" }

// Reconcile brings one pool to its spec, one step at a time. A step may be a batch of
// creates or deletes of one kind.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	moved := false
	for range control.MaxSteps {
		seen, err := r.observe(ctx, req.NamespacedName)
		if err != nil || seen.Pool == nil {
			return reconcile.Result{}, err
		}
		next := decide(seen, r.env.Clock.Now())
		if rest, ok := next.(rest); ok {
			return r.result(rest), nil
		}
		if err := r.apply(ctx, seen, next); err != nil && !consistent.Again(err) {
			return reconcile.Result{}, r.failed(ctx, seen, next, err)
		}
		moved = moved || movesMembers(next)
	}
	if !moved {
		return reconcile.Result{}, control.ErrNoProgress
	}
	// A large pool takes more batches than one pass has steps, and members come and go
	// while it works. Other pools have their turn in between.
	return reconcile.Result{RequeueAfter: time.Millisecond}, nil
}

// failed writes what was seen before a step failed, and returns the step's error. What
// cannot be done must not keep people from seeing what is.
func (r *Reconciler) failed(ctx context.Context, seen observed, failed step, err error) error {
	if _, writing := failed.(writeStatus); writing {
		return err
	}
	now := r.env.Clock.Now()
	if next, ok := report(seen, takeStock(seen, now), now, alarm{}).(writeStatus); ok {
		return errors.Join(err, r.writeStatus(ctx, seen, next.status))
	}
	return err
}

// movesMembers reports whether a step creates or deletes members. There are only so
// many of these to do.
func movesMembers(s step) bool {
	switch s.(type) {
	case createMembers, deleteMembers:
		return true
	default:
		return false
	}
}

func (r *Reconciler) result(next rest) reconcile.Result {
	if next.until.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(next.until.Sub(r.env.Clock.Now()), time.Millisecond)}
}

// Watches implements control.Controller.
func (r *Reconciler) Watches() []control.Watch {
	return []control.Watch{
		{Object: &extensions.SandboxWarmPool{}, Enqueue: forPool},
		{Object: &agents.Sandbox{}, Enqueue: forSandbox},
		{Object: &extensions.SandboxTemplate{}, Enqueue: r.forTemplate},
		{Object: &networkingv1.NetworkPolicy{}, Enqueue: r.forPolicy},
	}
}
