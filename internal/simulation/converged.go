// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/template"
)

// converged holds that everything is as it should be after it was left alone.
func (w *watcher) converged() {
	server := w.run.server
	for _, resource := range server.order {
		for _, obj := range server.peek(resource) {
			if owner := control.ControllerUID(obj); owner != "" && !server.uids[owner] {
				w.run.fail(nothingOrphaned, "%s %s outlives its controller", resource, obj.GetName())
			}
			if obj.GetDeletionTimestamp() != nil {
				w.run.fail(deletedGoes, "%s %s is still being deleted", resource, obj.GetName())
			}
		}
	}
	for _, obj := range server.peek("sandboxes") {
		w.sandboxAtRest(obj.(*agents.Sandbox))
	}
	for _, obj := range server.peek("sandboxclaims") {
		w.claimAtRest(obj.(*extensions.SandboxClaim))
	}
	for _, obj := range server.peek("sandboxwarmpools") {
		w.poolAtRest(obj.(*extensions.SandboxWarmPool))
	}
	for _, obj := range server.peek("sandboxtemplates") {
		w.templateAtRest(obj.(*extensions.SandboxTemplate))
	}
	for _, obj := range server.peek("networkpolicies") {
		w.policyAtRest(obj.(*networkingv1.NetworkPolicy))
	}
	if w.agents != nil {
		w.agents.converged()
	}
}

// sandboxAtRest: one pod, or none, and a status that says so.
func (w *watcher) sandboxAtRest(s *agents.Sandbox) {
	var pods []*corev1.Pod
	for _, obj := range w.run.server.peek("pods") {
		if control.IsControlledBy(obj, s.UID) {
			pods = append(pods, obj.(*corev1.Pod))
		}
	}
	ready := apimeta.FindStatusCondition(s.Status.Conditions, agents.ConditionReady)
	if ready == nil {
		w.run.fail(sandboxSays, "Sandbox %s has no Ready condition", s.Name)
		return
	}
	occupant := w.run.server.tables["pods"].objects[key(s.Name)]
	occupied := occupant != nil && !control.IsControlledBy(occupant, s.UID)
	// The controller's clock may be wrong by skew.
	expired := s.Spec.ShutdownTime != nil && !w.run.clock.Now().Add(skew).Before(s.Spec.ShutdownTime.Time)
	want := 1
	if !s.Running() || expired || occupied {
		want = 0
	}
	if len(pods) != want {
		w.run.fail(sandboxPod, "Sandbox %s has %d pods, want %d (%s: %s)", s.Name, len(pods), want, ready.Reason, ready.Message)
		return
	}
	service := asForeign(w, "services", s.Name)
	healthy := want == 1 && isReady(pods[0]) && !service
	if is := ready.Status == metav1.ConditionTrue; is != healthy && (!service || !is) {
		w.run.fail(sandboxTruth, "Sandbox %s: Ready is %s (%s: %s), want %v", s.Name, ready.Status, ready.Reason, ready.Message, healthy)
	}
}

func asForeign(w *watcher, resource, name string) bool {
	obj := w.run.server.tables[resource].objects[key(name)]
	return obj != nil && control.ControllerUID(obj) == ""
}

// sandboxesOf returns the Sandboxes that a claim at rest has to answer for. A claim whose
// Sandbox is gone, or was taken away, says so, and touches nothing until that is settled,
// what somebody gave it included.
func (w *watcher) sandboxesOf(c *extensions.SandboxClaim) []*agents.Sandbox {
	bound := asSandbox(w.run.server.tables["sandboxes"].objects[key(c.Status.Sandbox.Name)])
	takenAway := c.Status.Sandbox.Name != "" && (bound == nil || !control.IsControlledBy(bound, c.UID))
	var mine []*agents.Sandbox
	for _, obj := range w.run.server.peek("sandboxes") {
		if control.IsControlledBy(obj, c.UID) && (!takenAway || !w.bestowed[obj.GetUID()]) {
			mine = append(mine, obj.(*agents.Sandbox))
		}
	}
	return mine
}

// claimAtRest: bound to a Sandbox of its own, or a reason why not.
func (w *watcher) claimAtRest(c *extensions.SandboxClaim) {
	run := w.run
	ready := apimeta.FindStatusCondition(c.Status.Conditions, agents.ConditionReady)
	if ready == nil {
		run.fail(claimSays, "claim %s has no Ready condition", c.Name)
		return
	}
	mine := w.sandboxesOf(c)
	fail := func(what string) {
		run.fail(claimTruth, "claim %s: %s (%s: %s; bound to %q, controls %d)", c.Name, what,
			ready.Reason, ready.Message, c.Status.Sandbox.Name, len(mine))
	}
	switch {
	case len(mine) > 1:
		fail("it controls more than one Sandbox")
	case ready.Reason == extensions.ReasonClaimExpired:
		if len(mine) > 0 {
			fail("it has expired, and its Sandbox is still there")
		}
	case c.Status.Sandbox.Name == "":
		w.unboundAtRest(c, ready, fail)
		if len(mine) > 0 {
			fail("it is not bound to its Sandbox")
		}
	default:
		bound := asSandbox(run.server.tables["sandboxes"].objects[key(c.Status.Sandbox.Name)])
		invalid := ready.Reason == extensions.ReasonInvalidMetadata
		switch {
		case bound == nil || bound.UID != c.Status.Sandbox.UID:
			if ready.Reason != extensions.ReasonSandboxMissing {
				fail("its Sandbox is gone")
			}
		case !control.IsControlledBy(bound, c.UID):
			if ready.Reason != agents.ReasonReconcilerError {
				fail("its Sandbox is not its own")
			}
		case !invalid && apimeta.IsStatusConditionTrue(bound.Status.Conditions, agents.ConditionReady) != (ready.Status == metav1.ConditionTrue):
			fail("it does not say what its Sandbox says")
		case !invalid && !slices.Equal(bound.Status.PodIPs, c.Status.Sandbox.PodIPs):
			fail("it has not its Sandbox's addresses")
		}
	}
}

// unboundAtRest: a reason that is true.
func (w *watcher) unboundAtRest(c *extensions.SandboxClaim, ready *metav1.Condition, fail func(string)) {
	tables := w.run.server.tables
	pool := tables["sandboxwarmpools"].objects[key(c.PoolName())]
	switch ready.Reason {
	case extensions.ReasonWarmPoolNotFound:
		if pool != nil {
			fail("its pool exists")
		}
	case extensions.ReasonTemplateNotFound:
		name := c.TemplateName()
		if pool := asPool(pool); pool != nil {
			name = pool.Spec.TemplateRef.Name
		}
		if tables["sandboxtemplates"].objects[key(name)] != nil {
			fail("its template exists")
		}
	case extensions.ReasonSandboxNameTaken:
		if tables["sandboxes"].objects[key(c.Name)] == nil {
			fail("its name is free")
		}
	case extensions.ReasonBindDeadlineExceeded, extensions.ReasonEnvVarsInjectionRejected, extensions.ReasonInvalidMetadata:
	default:
		fail("nothing keeps it from being bound")
	}
}

// poolAtRest: as many members as it should have, ready and of the present blueprint.
func (w *watcher) poolAtRest(p *extensions.SandboxWarmPool) {
	t := asTemplate(w.run.server.tables["sandboxtemplates"].objects[key(p.Spec.TemplateRef.Name)])
	members, ready, stale := 0, 0, 0
	for _, obj := range w.run.server.peek("sandboxes") {
		if !control.IsControlledBy(obj, p.UID) {
			continue
		}
		s := obj.(*agents.Sandbox)
		members++
		if apimeta.IsStatusConditionTrue(s.Status.Conditions, agents.ConditionReady) {
			ready++
		}
		if t != nil && p.UpdateStrategyType() != extensions.WarmPoolOnReplenish && !blueprint.Matches(s, t) {
			stale++
		}
	}
	want := int(p.DesiredReplicas())
	switch {
	case t == nil && members <= want:
	case members != want || ready != want:
		w.run.fail(poolFull, "pool %s has %d members, %d ready, want %d", p.Name, members, ready, want)
	case stale > 0:
		w.run.fail(poolCurrent, "pool %s has %d members of an older blueprint", p.Name, stale)
	}
	if int(p.Status.Replicas) != members || int(p.Status.ReadyReplicas) != ready {
		w.run.fail(poolTruth, "pool %s says %d members, %d ready; there are %d, %d ready", p.Name, p.Status.Replicas, p.Status.ReadyReplicas, members, ready)
	}
}

// templateAtRest: the NetworkPolicy it wants.
func (w *watcher) templateAtRest(t *extensions.SandboxTemplate) {
	policy, _ := w.run.server.tables["networkpolicies"].objects[key(template.PolicyName(t.Name))].(*networkingv1.NetworkPolicy)
	if state := template.StateOf(policy, t); state != template.PolicyCurrent {
		w.run.fail(templatePolicy, "the NetworkPolicy of template %s is %s", t.Name, state)
	}
}

// policyAtRest: no NetworkPolicy outlives both its template and the last Sandbox.
func (w *watcher) policyAtRest(policy *networkingv1.NetworkPolicy) {
	name := policy.Annotations[agents.AnnotationTemplateRef]
	if name == "" || w.run.server.tables["sandboxtemplates"].objects[key(name)] != nil {
		return
	}
	for _, obj := range w.run.server.peek("sandboxes") {
		if obj.GetAnnotations()[agents.AnnotationTemplateRef] == name {
			return
		}
	}
	w.run.fail(policyGoes, "NetworkPolicy %s is of no use any more", policy.Name)
}
