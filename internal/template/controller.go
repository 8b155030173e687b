// SPDX-License-Identifier: Apache-2.0

// Package template keeps what belongs to a SandboxTemplate: its label, and the
// NetworkPolicy that isolates the pods of all Sandboxes made from it.
//
// The policy is there before the first Sandbox: whoever creates Sandboxes from a
// template first brings the policy to PolicyCurrent (StateOf, Policy, PolicyPatch).
// It goes after the last one.
package template

import (
	"context"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// Reconciler reconciles SandboxTemplates.
type Reconciler struct {
	env   control.Environment
	views kinds.Views

	mu       sync.Mutex
	reported map[types.NamespacedName]string // by template, what the last warning was about
}

var _ control.Controller = (*Reconciler)(nil)

// New returns the controller of templates.
func New(env control.Environment, views kinds.Views) *Reconciler {
	return &Reconciler{env: env, views: views, reported: map[types.NamespacedName]string{}}
}

// Name implements control.Controller.
func (r *Reconciler) Name() string { return "template" }

// Reconcile brings label and NetworkPolicy of one template to what they should be, one
// write at a time. The template may be gone while its NetworkPolicy is not.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	for range control.MaxSteps {
		seen, err := r.observe(ctx, req.NamespacedName)
		if err != nil {
			return reconcile.Result{}, err
		}
		end, err := r.apply(ctx, seen, decide(seen))
		switch {
		case consistent.Again(err):
		case err != nil:
			return reconcile.Result{}, err
		case end != nil:
			return *end, nil
		}
	}
	return reconcile.Result{}, control.ErrNoProgress
}

// Watches implements control.Controller.
func (r *Reconciler) Watches() []control.Watch {
	return []control.Watch{
		{Object: &extensions.SandboxTemplate{}, Enqueue: forTemplate},
		{Object: &networkingv1.NetworkPolicy{}, Enqueue: forPolicy},
		{Object: &agents.Sandbox{}, Enqueue: forSandbox},
	}
}

func forTemplate(before, after client.Object) []reconcile.Request {
	obj := after
	if obj == nil {
		obj = before
	}
	return []reconcile.Request{control.Request(obj.GetNamespace(), obj.GetName())}
}

// forPolicy wakes the template a policy names, and the one whose policy has its name:
// a policy of somebody else may come into the way, and go.
func forPolicy(before, after client.Object) []reconcile.Request {
	if before != nil && after != nil && before != after && samePolicy(before, after) {
		return nil
	}
	var requests requestSet
	for _, obj := range []client.Object{before, after} {
		if obj == nil {
			continue
		}
		requests.add(obj.GetNamespace(), obj.GetAnnotations()[agents.AnnotationTemplateRef])
		requests.add(obj.GetNamespace(), ByPolicyName(obj.GetName()))
	}
	return requests
}

// forSandbox wakes the template of a Sandbox that is gone, or names another one: it
// may have been what kept the policy.
func forSandbox(before, after client.Object) []reconcile.Request {
	if before == nil {
		return nil
	}
	named := before.GetAnnotations()[agents.AnnotationTemplateRef]
	if after != nil && after.GetAnnotations()[agents.AnnotationTemplateRef] == named {
		return nil
	}
	var requests requestSet
	requests.add(before.GetNamespace(), named)
	return requests
}

// requestSet are requests without repetition, in the order they were added.
type requestSet []reconcile.Request

func (s *requestSet) add(namespace, name string) {
	if name == "" {
		return
	}
	request := control.Request(namespace, name)
	for _, known := range *s {
		if known == request {
			return
		}
	}
	*s = append(*s, request)
}
