// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// oneTemplate is a view of one template.
type oneTemplate struct {
	consistent.Kind[*extensions.SandboxTemplate]
}

func (oneTemplate) Get(context.Context, types.NamespacedName) (*extensions.SandboxTemplate, bool, error) {
	return newTemplate(), true, nil
}

// invalidPolicies is a view of policies, of which the server takes none.
type invalidPolicies struct {
	consistent.Kind[*networkingv1.NetworkPolicy]
	existing *networkingv1.NetworkPolicy
}

func (p invalidPolicies) Get(context.Context, types.NamespacedName) (*networkingv1.NetworkPolicy, bool, error) {
	return p.existing, p.existing != nil, nil
}

func (p invalidPolicies) Create(context.Context, *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "NetworkPolicy"}, "python-network-policy", nil)
}

func (p invalidPolicies) Patch(ctx context.Context, base *networkingv1.NetworkPolicy, _ consistent.Patch) (*networkingv1.NetworkPolicy, error) {
	return p.Create(ctx, base)
}

func TestARefusedPolicyIsTriedAgainSeldomAndToldOnce(t *testing.T) {
	for name, existing := range map[string]*networkingv1.NetworkPolicy{
		"a new one": nil,
		"a change":  policyOf(newTemplate(withRules)),
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(9)
			r := New(control.Environment{Events: recorder}, kinds.Views{Templates: oneTemplate{}, NetworkPolicies: invalidPolicies{existing: existing}})
			for range 2 {
				result, err := r.Reconcile(t.Context(), control.Request("team", "python"))
				if err != nil || result.RequeueAfter != control.RefusedAgain {
					t.Errorf("ends in %+v, %v", result, err)
				}
			}
			if n := len(recorder.Events); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}
