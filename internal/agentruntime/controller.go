// SPDX-License-Identifier: Apache-2.0

// Package agentruntime is the controller of AgentRuntimes: it gives a workload the
// configuration of its namespace, and sees to it that no pod is left without.
//
// What it puts on a workload is stamps: labels and annotations, among them the hash of
// the configuration. Pods get the configuration when they are created, so a pod has it if
// it is proved to have been made after the stamps were on. Everything else follows from
// what is written down: which workload is about to be changed stands in the status before
// it is, that pods are about to be replaced does too, and what a Sandbox's rollout needs
// is in the same write as the stamps. A crash between two writes loses nothing.
package agentruntime

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/confighash"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/workload"
)

// Lister lists objects as the server has them now, not as a cache does.
type Lister interface {
	workload.PodLister
	ListConfigMaps(ctx context.Context, namespace, labelSelector string) ([]*corev1.ConfigMap, error)
}

// Options are what an installation can choose.
type Options struct {
	// OperatorNamespace holds the cluster's ConfigMaps. Empty means
	// api.DefaultOperatorNamespace.
	OperatorNamespace string
	// MaxConcurrentRestarts is how many workloads of one namespace, and of the cluster,
	// have their pods replaced at a time. 0 is no limit.
	MaxConcurrentRestarts, MaxConcurrentRestartsInCluster int
	// RestartJitter is the longest time a rollout waits before it begins, so that those
	// of one change do not begin at once. Each AgentRuntime has a share of its own.
	RestartJitter time.Duration
	Lister        Lister
	// Metrics may be nil.
	Metrics *Metrics
}

const (
	// stallLimit is how long a rollout may take before it counts as stalled. It goes on
	// then, and others' need not wait for it any more.
	stallLimit = 10 * time.Minute
	// releaseLimit is how long a deleted AgentRuntime tries to take off what it put on
	// its workload.
	releaseLimit = 5 * time.Minute
	// releasePatience is for how long that has to have failed when it gives up: a process
	// that was away does not do so at the first error.
	releasePatience = time.Minute
	// waitLimit is how long one that waits for others' rollouts rests at most. Its turn is
	// passed on by events, and may be lost: a watch that broke skips what came in between,
	// and those that were woken may not begin after all. A pass that finds nothing changed
	// makes no request.
	waitLimit = time.Minute
	// takenLimit is how long one rests at most whose target is an older one's. When that
	// names another target and the informer skips it, nothing tells of the former.
	takenLimit = 10 * time.Minute
)

// Reconciler reconciles AgentRuntimes.
type Reconciler struct {
	env       control.Environment
	views     kinds.Views
	workloads *workload.Accessor
	options   Options
	cached    confighash.Source
	live      confighash.Source
	listed    *listed
	metrics   *Metrics
	// beginning is held from counting the rollouts until the status tells of one more.
	beginning sync.Locker

	mu    sync.Mutex
	wipes map[types.UID]wipe
	// troubled is since when AgentRuntimes that are deleted fail to leave their workloads.
	troubled map[types.UID]time.Time
}

var _ control.Controller = (*Reconciler)(nil)

// New returns the controller of AgentRuntimes.
func New(env control.Environment, views kinds.Views, options Options) *Reconciler {
	if options.OperatorNamespace == "" {
		options.OperatorNamespace = api.DefaultOperatorNamespace
	}
	metrics := options.Metrics
	if metrics == nil {
		metrics = NewMetrics()
	}
	defaults := newListed()
	return &Reconciler{
		env: env, views: views, options: options, metrics: metrics, listed: defaults,
		workloads: workload.New(views, options.Lister),
		cached:    cachedConfig{views},
		live:      liveConfig{views, options.Lister, defaults},
		beginning: env.NewLock(),
		wipes:     map[types.UID]wipe{},
		troubled:  map[types.UID]time.Time{},
	}
}

// Name implements control.Controller.
func (r *Reconciler) Name() string { return "agentruntime" }

// maxSteps is how many steps one pass may take: attaching takes one more than other
// controllers need, since reads are steps here too.
const maxSteps = control.MaxSteps + 4

// Reconcile brings the workload of one AgentRuntime to its configuration, one write at a
// time.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	learnt := newPass()
	for range maxSteps {
		seen, err := r.observe(ctx, req.NamespacedName, learnt)
		if err != nil {
			return reconcile.Result{}, err
		}
		if seen.runtime == nil {
			r.metrics.setPending(req.NamespacedName, false)
			return reconcile.Result{}, nil
		}
		now := r.env.Clock.Now()
		next := decide(seen, now)
		switch end := next.(type) {
		case rest:
			r.metrics.setPending(req.NamespacedName, waits(seen.runtime))
			r.outOfTrouble(seen.runtime.UID)
			if end.until.IsZero() {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{RequeueAfter: max(end.until.Sub(now), 1)}, nil
		case retry:
			r.inTrouble(seen.runtime, now)
			return reconcile.Result{}, end.err
		}
		if err := learnt.again(seen.runtime, next, r.apply(ctx, seen, next, &learnt)); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, fmt.Errorf("agentruntime %s: %w", req, control.ErrNoProgress)
}

// pass is what one pass of the loop has learnt that no view shows.
type pass struct {
	// asked are workloads that the server was asked for, and absent those that it does not
	// have. As for those released, that ends when they are stamped.
	asked, absent map[workload.Target]bool
	// released are workloads that what could be taken off was taken off.
	released map[workload.Target]bool
	// confirmed are pods that the server was asked for. The view shows since what it said.
	confirmed map[types.UID]bool
	// config is the configuration as the server has it.
	config    *confighash.Result
	configErr error
	// noSlot says how many others' rollouts are under way, where that is too many. It is
	// asked when a pass observes, and again before a rollout begins.
	noSlot string
	// refusal is why the server did not let the workload be written to.
	refusal error
	// undecided is the last step whose outcome was unknown.
	undecided string
}

func newPass() pass {
	return pass{
		asked: map[workload.Target]bool{}, absent: map[workload.Target]bool{}, released: map[workload.Target]bool{},
		confirmed: map[types.UID]bool{},
	}
}

// again keeps errors to itself whose answer is to look again, once for the same step: a
// server that does not answer is not asked over and over. After that, what a webhook that
// is down answers is a refusal; so is all that keeps a workload from being left at the
// end, which is not waited for without end.
func (p *pass) again(a *api.AgentRuntime, done step, err error) error {
	if !consistent.Again(err) {
		return err
	}
	name := fmt.Sprintf("%T", done)
	switch {
	case p.undecided != name:
		p.undecided = name
		return nil
	case isOnWorkload(done) && (apierrors.IsInternalError(err) || a.DeletionTimestamp != nil):
		p.refusal = err
		return nil
	default:
		return err
	}
}

func isOnWorkload(s step) bool {
	switch s.(type) {
	case stamp, release, mark, replace:
		return true
	default:
		return false
	}
}
