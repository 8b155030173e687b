// SPDX-License-Identifier: Apache-2.0

// Package sandbox is the controller of Sandboxes: one pod for each that runs, its
// volumes, and its Service.
//
// A pod backs a Sandbox if its controller reference carries the Sandbox's UID, and
// nothing else is evidence of that. There is never more than one: the pod's name is
// chosen before it is created, a terminating pod is waited for, and two live ones stop
// the controller until one is left.
//
// Where a Service of the Sandbox's name belongs to something else and the Sandbox does
// not ask for one (spec.service is unset), that Service is left alone and is no error.
package sandbox

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// DefaultClusterDomain is the DNS domain of most clusters.
const DefaultClusterDomain = "cluster.local"

// PodReader reads whole pods from the server; consistent.API of pods is one. The view
// of pods keeps too little of them to say in what a pod differs from its template.
type PodReader interface {
	Get(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error)
}

// Options are what an installation can choose.
type Options struct {
	// ClusterDomain ends the DNS names of Services. Empty means DefaultClusterDomain.
	ClusterDomain string
	// WarmPoolEviction says whether the cluster autoscaler may evict pods of pool
	// members whose template does not say. Nil means that it may.
	WarmPoolEviction *bool
	// WholePods is asked in what an outdated pod differs from its template. Without it
	// the condition says only that it does.
	WholePods PodReader
}

// Reconciler brings Sandboxes to their spec.
type Reconciler struct {
	env       control.Environment
	views     kinds.Views
	settings  settings
	wholePods PodReader
}

var _ control.Controller = (*Reconciler)(nil)

// New returns the controller of Sandboxes.
func New(env control.Environment, views kinds.Views, options Options) *Reconciler {
	domain := options.ClusterDomain
	if domain == "" {
		domain = DefaultClusterDomain
	}
	return &Reconciler{
		env:       env,
		views:     views,
		settings:  settings{clusterDomain: domain, warmPoolEviction: ptr.Deref(options.WarmPoolEviction, true)},
		wholePods: options.WholePods,
	}
}

// Name implements control.Controller.
func (r *Reconciler) Name() string { return "sandbox" }

// Reconcile brings one Sandbox to its spec, one write at a time.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var learnt pass
	for range control.MaxSteps {
		seen, err := r.observe(ctx, req.NamespacedName, learnt)
		if err != nil || seen.sandbox == nil {
			return reconcile.Result{}, err
		}
		now := r.env.Clock.Now()
		next := decide(seen, now)
		switch end := next.(type) {
		case rest:
			if end.until.IsZero() {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{RequeueAfter: max(end.until.Sub(now), 1)}, nil
		case retry:
			return reconcile.Result{}, end.err
		}
		err = r.apply(ctx, seen, next, &learnt)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return reconcile.Result{}, nil // the Sandbox goes with its namespace
		}
		if err := learnt.take(next, err); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, fmt.Errorf("sandbox %s: %w", req, control.ErrNoProgress)
}

// pass is what one pass of the loop has learnt that no view shows.
type pass struct {
	refusals []refusal
	// podGone: a live read found no pod under the name of the Sandbox's pod.
	podGone bool
	// asked: the whole pod was asked for, and wholePod is what came of it.
	asked    bool
	wholePod *corev1.Pod
	// changed are the template's labels and annotations that were changed on the pod.
	changed []string
	// undecided is the last step whose outcome was unknown.
	undecided string
}

// refusal is a write that the server refused. It is not tried again in the same pass.
type refusal struct {
	subject subject
	err     error
	// invalid: the same write is refused again until somebody edits an object, which is
	// told of, or lifts the rule that refused it, which is not.
	invalid bool
}

// refused returns the refusal of a write about the subject, if there was one.
func (p *pass) refused(about subject) *refusal {
	for i := range p.refusals {
		if p.refusals[i].subject == about {
			return &p.refusals[i]
		}
	}
	return nil
}

// take remembers how a step ended. The error it returns ends the pass.
func (p *pass) take(done step, err error) error {
	if err == nil {
		return nil
	}
	if consistent.Again(err) {
		// The view finds out what became of the write. Once: a server that does not
		// answer is not asked over and over. That it fails to create what the Sandbox
		// lacks, as it does while a webhook is down, is worth a status.
		name := fmt.Sprintf("%T", done)
		if p.undecided == name && isCreate(done) && apierrors.IsInternalError(err) {
			p.refusals = append(p.refusals, refusal{subject: done.about(), err: err})
			return nil
		}
		if p.undecided == name {
			return err
		}
		p.undecided = name
		return nil
	}
	about := done.about()
	var answer apierrors.APIStatus
	if about == aboutSandbox || !errors.As(err, &answer) {
		return err
	}
	p.refusals = append(p.refusals, refusal{subject: about, err: err, invalid: isInvalid(err)})
	return nil
}

// isCreate reports whether a step makes what the Sandbox lacks.
func isCreate(s step) bool {
	switch s.(type) {
	case createVolumeClaims, createPod, createService:
		return true
	default:
		return false
	}
}

// isInvalid reports whether the server refused what was asked for, whatever else there is
// and whenever it is asked.
func isInvalid(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonRequestEntityTooLarge:
		return true
	default:
		return false
	}
}
