// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/roster"
)

// Watches implements control.Controller.
func (r *Reconciler) Watches() []control.Watch {
	return []control.Watch{
		{Object: &extensions.SandboxClaim{}, Enqueue: r.claimChanged},
		{Object: &agents.Sandbox{}, Enqueue: r.sandboxChanged},
		{Object: &corev1.Pod{}, Enqueue: r.podChanged},
		{Object: &extensions.SandboxWarmPool{}, Enqueue: r.poolChanged},
		{Object: &extensions.SandboxTemplate{}, Enqueue: r.templateChanged},
		{Object: &networkingv1.NetworkPolicy{}, Enqueue: r.policyChanged},
	}
}

// claimChanged enqueues the claim itself, and keeps the queue: a claim stands in it
// from the moment it is seen, so that its rank does not depend on who is reconciled
// first.
func (r *Reconciler) claimChanged(before, after client.Object) []reconcile.Request {
	if after == nil {
		gone := before.(*extensions.SandboxClaim)
		r.memory.forget(gone.UID)
		return append(requests(r.roster.Gone(gone.UID)), control.Request(gone.Namespace, gone.Name))
	}
	claim := after.(*extensions.SandboxClaim)
	var wake []types.NamespacedName
	if before != nil && before.GetUID() != after.GetUID() {
		// A list after a broken watch shows the next claim of the name in the place of one
		// whose deletion nobody saw.
		r.memory.forget(before.GetUID())
		wake, before = r.roster.Gone(before.GetUID()), nil
	}
	if before == nil {
		r.memory.see(claim, r.env.Clock.Now())
		if pool := claim.PoolName(); pool != "" && mayAdopt(claim) {
			wake = append(wake, r.roster.Enter(poolKey(claim, pool), waiter(claim))...)
		}
	} else if onlyStatusChanged(before, after) {
		return nil
	}
	return append(requests(wake), control.Request(claim.Namespace, claim.Name))
}

// onlyStatusChanged reports whether an update is one of the status alone. Only this
// controller writes it.
func onlyStatusChanged(before, after client.Object) bool {
	return before.GetResourceVersion() != after.GetResourceVersion() &&
		before.GetGeneration() == after.GetGeneration() &&
		before.GetUID() == after.GetUID() &&
		(before.GetDeletionTimestamp() == nil) == (after.GetDeletionTimestamp() == nil) &&
		maps.Equal(before.GetLabels(), after.GetLabels()) &&
		maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// mayAdopt is the part of R1 that the claim alone tells.
func mayAdopt(claim *extensions.SandboxClaim) bool {
	return claim.DeletionTimestamp == nil && claim.Status.Sandbox.Name == "" && !claim.NeedsOwnSandbox()
}

// sandboxChanged tells the roster what became of a pool's member, and enqueues the
// claim a Sandbox belongs to when something the claim repeats has changed.
func (r *Reconciler) sandboxChanged(before, after client.Object) []reconcile.Request {
	old, current := asSandbox(before), asSandbox(after)
	wake := requests(r.memberChanged(old, current))
	if old != nil && (current == nil || current.UID != old.UID || current.DeletionTimestamp != nil && old.DeletionTimestamp == nil) {
		// A Sandbox of a claim's own name may have stood in the claim's way.
		wake = append(wake, control.Request(old.Namespace, old.Name))
	}
	if !matters(old, current) {
		return wake
	}
	for _, s := range []*agents.Sandbox{old, current} {
		if s == nil {
			continue
		}
		if ref := control.ControllerOf(s, extensions.GroupName, extensions.SandboxClaimKind); ref != nil {
			wake = append(wake, control.Request(s.Namespace, ref.Name))
		}
	}
	// The claim that is bound to it may not be the one that controls it, and a broken watch
	// may have hidden that it ever was.
	either := either(before, after)
	return append(wake, r.claimsBy(kinds.BySandbox, either.GetNamespace(), either.GetName())...)
}

func asSandbox(obj client.Object) *agents.Sandbox {
	if obj == nil {
		return nil
	}
	return obj.(*agents.Sandbox)
}

// matters reports whether a claim has to look at the Sandbox again.
func matters(old, current *agents.Sandbox) bool {
	if old == nil || current == nil || old.ResourceVersion == current.ResourceVersion {
		return true
	}
	return old.UID != current.UID ||
		control.ControllerUID(old) != control.ControllerUID(current) ||
		(old.DeletionTimestamp == nil) != (current.DeletionTimestamp == nil) ||
		!slices.Equal(old.Status.PodIPs, current.Status.PodIPs) ||
		old.Annotations[agents.AnnotationClaimMetadata] != current.Annotations[agents.AnnotationClaimMetadata] ||
		old.Generation != current.Generation ||
		!sameCondition(old, current, agents.ConditionReady) ||
		!sameCondition(old, current, agents.ConditionFinished)
}

func sameCondition(old, current *agents.Sandbox, kind string) bool {
	was, is := apimeta.FindStatusCondition(old.Status.Conditions, kind), apimeta.FindStatusCondition(current.Status.Conditions, kind)
	return was == nil && is == nil || was != nil && is != nil && *was == *is
}

// podChanged looks at members again that were passed over because of their pods. When
// those are as they should be before anybody has said on the member that they were not,
// the member never changes.
func (r *Reconciler) podChanged(before, after client.Object) []reconcile.Request {
	old, current := asPod(before), asPod(after)
	var wake []types.NamespacedName
	same := old != nil && current != nil && old.UID == current.UID && control.ControllerUID(old) == control.ControllerUID(current)
	resync := same && old.ResourceVersion == current.ResourceVersion
	if serves(current) && (resync || !same || !serves(old)) {
		wake = append(wake, r.roster.Recheck(control.ControllerUID(current))...)
	}
	if live(old) && (!same || !live(current)) {
		// It may have been one pod too many.
		wake = append(wake, r.roster.Recheck(control.ControllerUID(old))...)
	}
	return requests(wake)
}

func asPod(obj client.Object) *corev1.Pod {
	pod, _ := obj.(*corev1.Pod)
	return pod
}

// memberChanged brings the roster up to date.
func (r *Reconciler) memberChanged(old, current *agents.Sandbox) []types.NamespacedName {
	var wake []types.NamespacedName
	if pool, ok := poolOf(old); ok {
		still, isMember := poolOf(current)
		switch {
		case isMember && still == pool && current.UID == old.UID:
		case current != nil && current.UID == old.UID:
			wake = append(wake, r.roster.Adopted(pool, member(old), control.ControllerUID(current))...)
		default:
			wake = append(wake, r.roster.Update(pool, member(old), roster.Absent)...)
		}
	}
	if pool, ok := poolOf(current); ok {
		wake = append(wake, r.roster.Update(pool, member(current), memberState(current))...)
	}
	return wake
}

// servedByAny returns the claims that take from any pool of the template a member is
// from. Each stands in the queue of one pool, and the member may be another's.
func (r *Reconciler) servedByAny(m roster.Member) []types.UID {
	var claims []types.UID
	for _, claim := range r.views.Claims.Peek(kinds.ByTemplate, kinds.InNamespace(m.Key.Namespace, m.Template)) {
		if claim.AnyPool() && mayAdopt(claim) {
			claims = append(claims, claim.UID)
		}
	}
	return claims
}

// memberState is what the roster is told of a member; the claim it is promised to
// looks closer.
func memberState(s *agents.Sandbox) roster.State {
	switch {
	case s.DeletionTimestamp != nil,
		apimeta.IsStatusConditionTrue(s.Status.Conditions, agents.ConditionFinished),
		!s.Running():
		return roster.Absent
	case apimeta.IsStatusConditionTrue(s.Status.Conditions, agents.ConditionReady) && len(s.Status.PodIPs) > 0:
		return roster.Ready
	default:
		return roster.ComingUp
	}
}

// poolOf returns the key of the pool that controls s.
func poolOf(s *agents.Sandbox) (types.NamespacedName, bool) {
	if s == nil {
		return types.NamespacedName{}, false
	}
	ref := control.ControllerOf(s, extensions.GroupName, extensions.SandboxWarmPoolKind)
	if ref == nil {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: s.Namespace, Name: ref.Name}, true
}

func member(s *agents.Sandbox) roster.Member {
	return roster.Member{Key: client.ObjectKeyFromObject(s), UID: s.UID, Template: s.Annotations[agents.AnnotationTemplateRef]}
}

func waiter(claim *extensions.SandboxClaim) roster.Claim {
	return roster.Claim{Key: client.ObjectKeyFromObject(claim), UID: claim.UID, Created: claim.CreationTimestamp.Time}
}

func poolKey(claim *extensions.SandboxClaim, pool string) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: pool}
}

// poolChanged enqueues the unbound claims of a pool that came, went or was edited.
func (r *Reconciler) poolChanged(before, after client.Object) []reconcile.Request {
	if before != nil && after != nil && onlyStatusChanged(before, after) {
		return nil
	}
	pool := either(before, after).(*extensions.SandboxWarmPool)
	wake := r.claimsBy(kinds.ByPool, pool.Namespace, pool.Name)
	template := pool.Spec.TemplateRef.Name
	if before != nil {
		// Claims that take from any pool of its former template have one less.
		if former := before.(*extensions.SandboxWarmPool).Spec.TemplateRef.Name; former != template {
			wake = append(wake, r.claimsBy(kinds.ByTemplate, pool.Namespace, former)...)
		}
	}
	return append(wake, r.claimsBy(kinds.ByTemplate, pool.Namespace, template)...)
}

// templateChanged enqueues the unbound claims that are served from a template.
func (r *Reconciler) templateChanged(before, after client.Object) []reconcile.Request {
	if before != nil && after != nil && before.GetGeneration() == after.GetGeneration() && before.GetUID() == after.GetUID() {
		return nil
	}
	template := either(before, after)
	return r.claimsOf(template.GetNamespace(), template.GetName())
}

// policyChanged enqueues the unbound claims of the template whose NetworkPolicy
// changed, which may have waited for that.
func (r *Reconciler) policyChanged(before, after client.Object) []reconcile.Request {
	if before != nil && after != nil && before.GetResourceVersion() == after.GetResourceVersion() {
		return nil
	}
	policy := either(before, after)
	if name := policy.GetAnnotations()[agents.AnnotationTemplateRef]; name != "" {
		return r.claimsOf(policy.GetNamespace(), name)
	}
	if name, ok := strings.CutSuffix(policy.GetName(), "-network-policy"); ok {
		return r.claimsOf(policy.GetNamespace(), name)
	}
	return nil
}

// claimsOf returns the unbound claims served from a template, by pool or without.
func (r *Reconciler) claimsOf(namespace, template string) []reconcile.Request {
	wake := r.claimsBy(kinds.ByTemplate, namespace, template)
	for _, pool := range r.views.WarmPools.Peek(kinds.ByTemplate, kinds.InNamespace(namespace, template)) {
		wake = append(wake, r.claimsBy(kinds.ByPool, pool.Namespace, pool.Name)...)
	}
	return wake
}

func (r *Reconciler) claimsBy(index, namespace, name string) []reconcile.Request {
	var wake []reconcile.Request
	for _, claim := range r.views.Claims.Peek(index, kinds.InNamespace(namespace, name)) {
		wake = append(wake, control.Request(claim.Namespace, claim.Name))
	}
	return wake
}

func either(before, after client.Object) client.Object {
	if after != nil {
		return after
	}
	return before
}
