// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/template"
)

// forPool wakes a pool for everything but the echo of its status.
func forPool(before, after client.Object) []reconcile.Request {
	obj := after
	if obj == nil {
		obj = before
	}
	if before != nil && after != nil && before.GetResourceVersion() != after.GetResourceVersion() &&
		before.GetUID() == after.GetUID() && before.GetGeneration() == after.GetGeneration() &&
		(before.GetDeletionTimestamp() == nil) == (after.GetDeletionTimestamp() == nil) {
		return nil
	}
	return []reconcile.Request{control.Request(obj.GetNamespace(), obj.GetName())}
}

// forSandbox wakes the pools a Sandbox was and is a member of, if what they count
// changed.
func forSandbox(before, after client.Object) []reconcile.Request {
	if before != nil && after != nil && before != after && countsAs(before.(*agents.Sandbox)) == countsAs(after.(*agents.Sandbox)) {
		return nil
	}
	var requests []reconcile.Request
	for _, obj := range []client.Object{before, after} {
		if obj == nil {
			continue
		}
		owner := control.ControllerOf(obj, extensions.GroupVersion.Group, "SandboxWarmPool")
		if owner == nil {
			continue
		}
		if request := control.Request(obj.GetNamespace(), owner.Name); !slices.Contains(requests, request) {
			requests = append(requests, request)
		}
	}
	return requests
}

// counted is all of a Sandbox that its pool looks at.
type counted struct {
	uid, controller        string
	generation             int64
	template, templateHash string
	terminating, finished  bool
	ready, reason          string
}

func countsAs(s *agents.Sandbox) counted {
	c := counted{
		uid:          string(s.UID),
		generation:   s.Generation,
		template:     s.Annotations[agents.AnnotationTemplateRef],
		templateHash: s.Labels[agents.LabelTemplateHash],
		terminating:  s.DeletionTimestamp != nil,
		finished:     isFinished(s),
	}
	if ref := metav1.GetControllerOfNoCopy(s); ref != nil {
		c.controller = string(ref.UID)
	}
	if ready := meta.FindStatusCondition(s.Status.Conditions, agents.ConditionReady); ready != nil {
		c.ready = string(ready.Status)
		if ready.Reason == agents.ReasonMultiplePods {
			c.reason = ready.Reason
		}
	}
	return c
}

// forTemplate wakes the pools that use a template.
func (r *Reconciler) forTemplate(before, after client.Object) []reconcile.Request {
	if before != nil && after != nil && before != after && before.GetUID() == after.GetUID() && before.GetGeneration() == after.GetGeneration() {
		return nil
	}
	obj := after
	if obj == nil {
		obj = before
	}
	return r.poolsOf(obj.GetNamespace(), obj.GetName())
}

// forPolicy wakes the pools of the templates that a NetworkPolicy names, and of the one
// whose policy has its name, when it comes, goes, or becomes somebody else's. What its
// rules are means nothing to a pool.
func (r *Reconciler) forPolicy(before, after client.Object) []reconcile.Request {
	if before != nil && after != nil && before.GetResourceVersion() != after.GetResourceVersion() && sameOwner(before, after) {
		return nil
	}
	var names []string
	var requests []reconcile.Request
	for _, obj := range []client.Object{before, after} {
		if obj == nil {
			continue
		}
		for _, name := range []string{obj.GetAnnotations()[agents.AnnotationTemplateRef], template.ByPolicyName(obj.GetName())} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
				requests = append(requests, r.poolsOf(obj.GetNamespace(), name)...)
			}
		}
	}
	return requests
}

// sameOwner reports whether a policy is whose it was.
func sameOwner(before, after client.Object) bool {
	return before.GetUID() == after.GetUID() &&
		maps.Equal(before.GetAnnotations(), after.GetAnnotations()) &&
		equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences())
}

func (r *Reconciler) poolsOf(namespace, template string) []reconcile.Request {
	var requests []reconcile.Request
	for _, pool := range r.views.WarmPools.Peek(kinds.ByTemplate, kinds.InNamespace(namespace, template)) {
		requests = append(requests, control.Request(pool.Namespace, pool.Name))
	}
	return requests
}
