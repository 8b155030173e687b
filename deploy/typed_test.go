// SPDX-License-Identifier: Apache-2.0

package deploy_test

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/berthdev/berth/deploy"
)

func TestPoliciesHaveNoUnknownFieldsAndAreBound(t *testing.T) {
	objects, err := deploy.Policies()
	if err != nil {
		t.Fatal(err)
	}
	var policies, bound []string
	for _, object := range objects {
		switch kind := object.GetKind(); kind {
		case "MutatingAdmissionPolicy":
			convert(t, object.Object, &admissionv1.MutatingAdmissionPolicy{})
			policies = append(policies, object.GetName())
		case "MutatingAdmissionPolicyBinding":
			binding := &admissionv1.MutatingAdmissionPolicyBinding{}
			convert(t, object.Object, binding)
			bound = append(bound, binding.Spec.PolicyName)
		case "ValidatingAdmissionPolicy":
			convert(t, object.Object, &admissionv1.ValidatingAdmissionPolicy{})
			policies = append(policies, object.GetName())
		case "ValidatingAdmissionPolicyBinding":
			binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
			convert(t, object.Object, binding)
			bound = append(bound, binding.Spec.PolicyName)
			if !slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) {
				t.Errorf("%s only %v", object.GetName(), binding.Spec.ValidationActions)
			}
		default:
			t.Errorf("%s %s is no policy", kind, object.GetName())
		}
	}
	if !slices.Equal(policies, bound) || len(policies) == 0 {
		t.Errorf("policies are %v, and bound are %v", policies, bound)
	}
}

// Which requests of the election are sent is seen in internal/leader and client-go.
func TestTheElectionHasAPriorityLevelOfItsOwn(t *testing.T) {
	schema := &flowcontrolv1.FlowSchema{}
	find(t, "FlowSchema", "agent-sandbox-leader-election", schema)
	if schema.Spec.PriorityLevelConfiguration.Name != "leader-election" {
		t.Errorf("its level is %q", schema.Spec.PriorityLevelConfiguration.Name)
	}
	rule := schema.Spec.Rules[0]
	account := rule.Subjects[0].ServiceAccount
	if account == nil || account.Name != deploy.ControllerName || account.Namespace != deploy.Namespace {
		t.Errorf("it is for %v", rule.Subjects)
	}
	if resource := rule.ResourceRules[0]; !slices.Equal(resource.Resources, []string{"leases"}) || !slices.Equal(resource.Namespaces, []string{deploy.Namespace}) {
		t.Errorf("it is about %v", rule.ResourceRules)
	}
}
