// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"maps"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/control"
)

// Unsettled says what is missing for everything to be in order, or nothing: every claim
// is bound to its one Sandbox or says why not, pools are full and up to date, every
// Sandbox has its pod and says how it is, and nothing is orphaned or on its way out.
func (s *State) Unsettled() string {
	for _, check := range []func() string{
		func() string { return outlives(s, pods, s.Pods) },
		func() string { return outlives(s, sandboxes, s.Sandboxes) },
		func() string { return outlives(s, claims, s.Claims) },
		func() string { return each(s.Sandboxes, s.sandboxUnsettled) },
		func() string { return each(s.Claims, s.claimUnsettled) },
		func() string { return each(s.Pools, s.poolUnsettled) },
	} {
		if left := check(); left != "" {
			return left
		}
	}
	return ""
}

// UnsettledWith is Unsettled with so many claims, all of which are bound and Ready.
func (s *State) UnsettledWith(count int) string {
	if len(s.Claims) != count {
		return fmt.Sprintf("there are %d claims, not %d", len(s.Claims), count)
	}
	ready := func(c *extensions.SandboxClaim) string {
		if !apimeta.IsStatusConditionTrue(c.Status.Conditions, agents.ConditionReady) || c.Status.Sandbox.UID == "" {
			return fmt.Sprintf("claim %s is not Ready: %+v", c.Name, c.Status.Conditions)
		}
		return ""
	}
	if left := each(s.Claims, ready); left != "" {
		return left
	}
	return s.Unsettled()
}

func each[T any](table map[string]*T, check func(*T) string) string {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if left := check(table[name]); left != "" {
			return left
		}
	}
	return ""
}

// outlives: nothing is left of what is deleted, and of what its controller had.
func outlives[T any, P interface {
	*T
	client.Object
}](s *State, resource string, table map[string]P) string {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		obj := table[name]
		if obj.GetDeletionTimestamp() != nil {
			return fmt.Sprintf("%s %s is still being deleted", resource, name)
		}
		if owner := control.ControllerUID(obj); owner != "" && !s.exists(owner) {
			return fmt.Sprintf("%s %s outlives its controller", resource, name)
		}
	}
	return ""
}

func (s *State) sandboxUnsettled(sandbox *agents.Sandbox) string {
	ready := apimeta.FindStatusCondition(sandbox.Status.Conditions, agents.ConditionReady)
	if ready == nil {
		return fmt.Sprintf("Sandbox %s has no Ready condition", sandbox.Name)
	}
	own, want := s.ownPods(sandbox.UID), 0
	if sandbox.Running() {
		want = 1
	}
	if len(own) != want {
		return fmt.Sprintf("Sandbox %s has %d pods, not %d (%s: %s)", sandbox.Name, len(own), want, ready.Reason, ready.Message)
	}
	healthy := want == 1 && serves(own[0])
	if is := ready.Status == metav1.ConditionTrue; is != healthy {
		return fmt.Sprintf("Sandbox %s: Ready is %s (%s: %s)", sandbox.Name, ready.Status, ready.Reason, ready.Message)
	}
	return ""
}

func (s *State) claimUnsettled(c *extensions.SandboxClaim) string {
	ready := apimeta.FindStatusCondition(c.Status.Conditions, agents.ConditionReady)
	if ready == nil {
		return fmt.Sprintf("claim %s has no Ready condition", c.Name)
	}
	mine := s.ownSandboxes(c.UID)
	left := func(what string) string {
		return fmt.Sprintf("claim %s: %s (%s: %s; bound to %q, controls %d)", c.Name, what, ready.Reason, ready.Message, c.Status.Sandbox.Name, len(mine))
	}
	if c.Status.Sandbox.UID == "" {
		if len(mine) > 0 {
			return left("it is not bound to its Sandbox")
		}
		switch ready.Reason {
		case extensions.ReasonEnvVarsInjectionRejected, extensions.ReasonInvalidMetadata, extensions.ReasonBindDeadlineExceeded:
			return ""
		}
		return left("nothing keeps it from being bound")
	}
	switch {
	case len(mine) != 1:
		return left("it has not one Sandbox")
	case mine[0].UID != c.Status.Sandbox.UID || mine[0].Name != c.Status.Sandbox.Name:
		return left("it is bound to another than its own")
	case apimeta.IsStatusConditionTrue(mine[0].Status.Conditions, agents.ConditionReady) != (ready.Status == metav1.ConditionTrue):
		return left("it does not say what its Sandbox says")
	case !slices.Equal(mine[0].Status.PodIPs, c.Status.Sandbox.PodIPs):
		return left("it has not its Sandbox's addresses")
	}
	return ""
}

func (s *State) poolUnsettled(p *extensions.SandboxWarmPool) string {
	t := s.Templates[p.Spec.TemplateRef.Name]
	members, ready := s.ownSandboxes(p.UID), 0
	for _, member := range members {
		if apimeta.IsStatusConditionTrue(member.Status.Conditions, agents.ConditionReady) {
			ready++
		}
		if t != nil && p.UpdateStrategyType() != extensions.WarmPoolOnReplenish && !blueprint.Matches(member, t) {
			return fmt.Sprintf("member %s of pool %s is of an older blueprint", member.Name, p.Name)
		}
	}
	if want := int(p.DesiredReplicas()); t != nil && (len(members) != want || ready != want) {
		return fmt.Sprintf("pool %s has %d members, %d ready, not %d", p.Name, len(members), ready, want)
	}
	if int(p.Status.Replicas) != len(members) || int(p.Status.ReadyReplicas) != ready {
		return fmt.Sprintf("pool %s says %d members, %d ready; there are %d, %d ready", p.Name, p.Status.Replicas, p.Status.ReadyReplicas, len(members), ready)
	}
	return ""
}
