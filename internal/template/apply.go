// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

// EventNetworkPolicyRefused is the reason of the warning that a template's
// NetworkPolicy cannot be kept.
const EventNetworkPolicyRefused = "NetworkPolicyRefused"

// apply does one step. It returns how the pass ends, or nil if it is not over.
func (r *Reconciler) apply(ctx context.Context, seen observed, next step) (end *reconcile.Result, err error) {
	switch next := next.(type) {
	case label:
		_, err = r.views.Templates.Patch(ctx, seen.Template, consistent.Patch{
			"metadata": map[string]any{"labels": map[string]any{agents.LabelTemplateRefHash: agents.NameHash(seen.Template.Name)}},
		})
		return nil, err
	case createPolicy:
		_, err = r.views.NetworkPolicies.Create(ctx, Policy(seen.Template))
		return r.unlessInvalid(ctx, seen, err)
	case patchPolicy:
		_, err = r.views.NetworkPolicies.Patch(ctx, seen.Policy, PolicyPatch(seen.Policy, seen.Template))
		return r.unlessInvalid(ctx, seen, err)
	case deletePolicy:
		log.FromContext(ctx).Info("Deleting NetworkPolicy", "name", seen.Policy.Name, "why", next.why)
		return nil, r.views.NetworkPolicies.Delete(ctx, seen.Policy, consistent.Precondition{})
	case warn:
		r.warnOnce(ctx, seen, next.note)
		return &reconcile.Result{}, nil
	case rest:
		r.forget(seen)
		return &reconcile.Result{}, nil
	default:
		return nil, fmt.Errorf("unknown step %T", next)
	}
}

// unlessInvalid ends the pass if the server found the template's rules invalid. Only a
// person can change them, and that change is an event; that the server judges them
// otherwise is none, so that they are tried again after a long while.
func (r *Reconciler) unlessInvalid(ctx context.Context, seen observed, err error) (*reconcile.Result, error) {
	if !apierrors.IsInvalid(err) {
		return nil, err
	}
	r.warnOnce(ctx, seen, fmt.Sprintf("the rules in spec.networkPolicy are refused, and no Sandbox is made from the template until they are corrected: %v", err))
	return &reconcile.Result{RequeueAfter: control.RefusedAgain}, nil
}

// warnOnce records an event about the template, unless the last one said the same.
func (r *Reconciler) warnOnce(ctx context.Context, seen observed, note string) {
	r.mu.Lock()
	known := r.reported[seen.Key] == note
	r.reported[seen.Key] = note
	r.mu.Unlock()
	if known {
		return
	}
	log.FromContext(ctx).Info("NetworkPolicy cannot be kept", "why", note)
	r.env.Events.Eventf(seen.Template, nil, corev1.EventTypeWarning, EventNetworkPolicyRefused, "Reconciling", "%s", note)
}

func (r *Reconciler) forget(seen observed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reported, seen.Key)
}
