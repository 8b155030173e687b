// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// policies is a view of one NetworkPolicy.
type policies struct {
	consistent.Kind[*networkingv1.NetworkPolicy]
	only *networkingv1.NetworkPolicy
}

func (p policies) Get(_ context.Context, key types.NamespacedName) (*networkingv1.NetworkPolicy, bool, error) {
	return p.only, p.only.Name == key.Name && p.only.Namespace == key.Namespace, nil
}

func TestTheNetworkPolicyOfAFormerVersionIsTheClaimsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*networkingv1.NetworkPolicy)
		own  bool
	}{
		"by name and controller":                           {func(*networkingv1.NetworkPolicy) {}, true},
		"not of another name":                              {func(p *networkingv1.NetworkPolicy) { p.Name = "python-network-policy" }, false},
		"not of a template of the claim's name":            {func(p *networkingv1.NetworkPolicy) { p.OwnerReferences = nil }, false},
		"not of a former claim of that name":               {func(p *networkingv1.NetworkPolicy) { p.OwnerReferences[0].UID = "former" }, false},
		"and no more when it is being deleted in any case": {func(p *networkingv1.NetworkPolicy) { p.DeletionTimestamp = new(metav1.NewTime(now)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "task-network-policy", OwnerReferences: []metav1.OwnerReference{controllerRef("SandboxClaim", "claim-uid")},
			}}
			c.edit(policy)
			r := New(control.Environment{}, kinds.Views{NetworkPolicies: policies{only: policy}}, Options{})
			if got, err := r.ownPolicy(t.Context(), newClaim()); err != nil || (got != nil) != c.own {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
