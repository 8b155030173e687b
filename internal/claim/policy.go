// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/template"
)

// policy reads the template's NetworkPolicy, or nil if there is none.
func (r *Reconciler) policy(ctx context.Context, t *extensions.SandboxTemplate) (*networkingv1.NetworkPolicy, error) {
	key := types.NamespacedName{Namespace: t.Namespace, Name: template.PolicyName(t.Name)}
	policy, ok, err := r.views.NetworkPolicies.Get(ctx, key)
	if err != nil || !ok {
		return nil, err
	}
	return policy, nil
}

// ownPolicy reads the NetworkPolicy that former versions made for each claim. It would
// let in what the template's keeps out: policies add up.
func (r *Reconciler) ownPolicy(ctx context.Context, claim *extensions.SandboxClaim) (*networkingv1.NetworkPolicy, error) {
	key := types.NamespacedName{Namespace: claim.Namespace, Name: extensions.NetworkPolicyName(claim.Name)}
	policy, ok, err := r.views.NetworkPolicies.Get(ctx, key)
	if err != nil || !ok || policy.DeletionTimestamp != nil || !control.IsControlledBy(policy, claim.UID) {
		return nil, err
	}
	return policy, nil
}

// policyObstacle says why the template's NetworkPolicy does not isolate a Sandbox yet,
// or nothing if a Sandbox may be created. The template's controller sees to all but
// the first creation, which need not be waited for.
func policyObstacle(state template.PolicyState, t *extensions.SandboxTemplate) string {
	name := template.PolicyName(t.Name)
	switch {
	case state.AllowsSandboxes():
		return ""
	case state == template.PolicyForeign:
		return fmt.Sprintf("a NetworkPolicy %q that is not SandboxTemplate %q's stands in the way; rename or delete it, "+
			"or set the template's spec.networkPolicyManagement to Unmanaged", name, t.Name)
	default:
		return fmt.Sprintf("waiting for NetworkPolicy %q to be as SandboxTemplate %q says", name, t.Name)
	}
}
