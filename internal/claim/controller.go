// SPDX-License-Identifier: Apache-2.0

// Package claim is the SandboxClaim controller: it gives each claim one Sandbox, from
// a warm pool if one is ready or nearly so, else made for it, and says on the claim
// what became of it.
//
// A Sandbox is the claim's iff its controller is the claim's UID. The claim is bound
// when its status names a Sandbox; that is written once, after the Sandbox is the
// claim's, and a Sandbox is never exchanged for another while it lives.
package claim

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/roster"
)

// Name is the controller's name in logs, metrics and wake-ups.
const Name = "claim"

// Options of the controller.
type Options struct {
	// AllowedLabelDomains are the domains under which additionalPodMetadata may set
	// labels. None means DefaultLabelDomain.
	AllowedLabelDomains []string
	// Quiet turns the events about claims off.
	Quiet bool
	// Metrics count and time claims. Nil are not looked at by anybody.
	Metrics *Metrics
	// AnnotateTimes writes to a claim when it was first seen and when it was Ready, after
	// it is. It needs the right to patch claims.
	AnnotateTimes bool
}

// Reconciler reconciles SandboxClaims.
type Reconciler struct {
	env     control.Environment
	views   kinds.Views
	options Options
	roster  *roster.Roster
	supply  *supply
	memory  *memory
}

var _ control.Controller = (*Reconciler)(nil)

// New returns a reconciler with an empty roster, which its watches fill.
func New(env control.Environment, views kinds.Views, options Options) *Reconciler {
	if len(options.AllowedLabelDomains) == 0 {
		options.AllowedLabelDomains = []string{DefaultLabelDomain}
	}
	if options.Metrics == nil {
		options.Metrics = NewMetrics()
	}
	r := &Reconciler{
		env: env, views: views, options: options, supply: newSupply(views, env.NewLock),
		memory: &memory{times: map[types.UID]times{}, keep: options.AnnotateTimes},
	}
	r.roster = roster.New(r.servedByAny)
	return r
}

// Name implements control.Controller.
func (r *Reconciler) Name() string { return Name }

// Reconcile brings one claim nearer to its Sandbox, one write at a time.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var heard answers
	for range control.MaxSteps {
		seen, err := r.observe(ctx, req.NamespacedName, heard)
		if err != nil {
			r.leave(seen.Claim)
			return reconcile.Result{}, err
		}
		if seen.Claim == nil {
			return reconcile.Result{}, nil
		}
		seen.Times = r.record(seen)
		next := decide(seen, r.env.Clock.Now())
		if next.leavesQueue() {
			r.leave(seen.Claim)
		}
		if pause, ok := next.(rest); ok {
			if pause.waits && r.stays(seen) {
				continue
			}
			now := r.env.Clock.Now()
			return seen.askAgain(pause, now).result(now), seen.retry()
		}
		err = r.apply(ctx, seen, next)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return reconcile.Result{}, nil // the claim goes with its namespace
		}
		if err := heard.take(next, err); err != nil {
			r.leave(seen.Claim)
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, control.ErrNoProgress
}

// leave takes the claim out of the queue; the claims that are served in its place are
// woken.
func (r *Reconciler) leave(claim *extensions.SandboxClaim) {
	if claim != nil {
		r.wake(r.roster.Leave(claim.UID))
	}
}

// stays keeps a claim in the queue that may start cold and cannot. It reports whether
// a member became ready for it in the meantime.
func (r *Reconciler) stays(seen observed) bool {
	if !mayAdoptFrom(seen.Source.Pool) {
		return false
	}
	if !seen.Wait {
		ready, wake := r.roster.Stay(client.ObjectKeyFromObject(seen.Source.Pool), waiter(seen.Claim))
		r.wake(wake)
		if ready {
			return true
		}
	}
	return seen.Source.OwnTemplate && r.freeElsewhere(seen.Claim, seen.Source)
}

// freeElsewhere reports whether another pool of the template has a member for a claim
// that takes from any. One that became ready before the claim stood in a queue has not
// woken it.
func (r *Reconciler) freeElsewhere(claim *extensions.SandboxClaim, from source) bool {
	pools := r.views.WarmPools.Peek(kinds.ByTemplate, kinds.InNamespace(from.Pool.Namespace, from.TemplateName))
	return slices.ContainsFunc(pools, func(pool *extensions.SandboxWarmPool) bool {
		return pool.Name != from.PoolName && mayAdoptFrom(pool) && r.roster.Free(client.ObjectKeyFromObject(pool), claim.UID) > 0
	})
}

// record counts and times what the claim's status tells for the first time, and returns
// the claim's times. That it is read here means that the server has it.
func (r *Reconciler) record(seen observed) times {
	if seen.Named == nil {
		return times{}
	}
	t, first := r.memory.learn(seen.Claim, r.env.Clock.Now())
	if first.bound {
		r.options.Metrics.bound(seen.Claim, seen.Named)
	}
	if first.ready {
		r.options.Metrics.ready(seen.Claim, seen.Named, t)
	}
	return t
}

func (r *Reconciler) wake(claims []types.NamespacedName) {
	if len(claims) > 0 {
		r.env.Wake(Name, requests(claims)...)
	}
}

func requests(keys []types.NamespacedName) []reconcile.Request {
	requests := make([]reconcile.Request, len(keys))
	for i, key := range keys {
		requests[i] = reconcile.Request{NamespacedName: key}
	}
	return requests
}

// result turns a rest into what the work queue is told.
func (s rest) result(now time.Time) reconcile.Result {
	if s.until.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(s.until.Sub(now), time.Millisecond)}
}
