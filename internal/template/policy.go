// SPDX-License-Identifier: Apache-2.0

package template

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

const (
	policySuffix = "-network-policy"
	// maxObjectName is the longest name of an object (RFC 1123 subdomain).
	maxObjectName = 253
)

// PolicyName returns the name of the managed NetworkPolicy of the named template. The
// name of a template that is too long for the suffix is cut and ends in its hash.
func PolicyName(template string) string {
	name := extensions.NetworkPolicyName(template)
	if len(name) <= maxObjectName {
		return name
	}
	hash := agents.NameHash(template)
	room := maxObjectName - len(hash) - len(policySuffix) - 1
	return strings.TrimRight(template[:room], "-.") + "-" + hash + policySuffix
}

// Policy renders the managed NetworkPolicy of t. It has no owner reference: Sandboxes
// outlive their template and stay isolated until the last one is gone. Annotations
// say whose it is.
func Policy(t *extensions.SandboxTemplate) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   t.Namespace,
			Name:        PolicyName(t.Name),
			Annotations: policyAnnotations(t),
		},
		Spec: policySpec(t),
	}
}

func policyAnnotations(t *extensions.SandboxTemplate) map[string]string {
	return map[string]string{
		agents.AnnotationTemplateRef: t.Name,
		agents.AnnotationTemplateUID: string(t.UID),
	}
}

func policySpec(t *extensions.SandboxTemplate) networkingv1.NetworkPolicySpec {
	spec := networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{agents.LabelTemplateRefHash: agents.NameHash(t.Name)}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     defaultIngress(),
		Egress:      defaultEgress(),
	}
	if own := t.Spec.NetworkPolicy.DeepCopy(); own != nil {
		spec.Ingress, spec.Egress = own.Ingress, own.Egress
	}
	for i := range spec.Ingress {
		defaultProtocols(spec.Ingress[i].Ports)
	}
	for i := range spec.Egress {
		defaultProtocols(spec.Egress[i].Ports)
	}
	return spec
}

// defaultProtocols fills in what the API server would: the policy it stores would
// differ from the rendered one for ever otherwise.
func defaultProtocols(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		if ports[i].Protocol == nil {
			ports[i].Protocol = ptr.To(corev1.ProtocolTCP)
		}
	}
}

// defaultIngress lets in the router and nothing else.
func defaultIngress() []networkingv1.NetworkPolicyIngressRule {
	return []networkingv1.NetworkPolicyIngressRule{{
		From: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: agents.RouterNamespace}},
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{agents.LabelApp: agents.AppSandboxRouter}},
		}},
	}}
}

// defaultEgress lets out to the internet, and not to private networks, the cluster's
// DNS and the metadata servers of clouds included.
func defaultEgress() []networkingv1.NetworkPolicyEgressRule {
	return []networkingv1.NetworkPolicyEgressRule{{
		To: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: []string{"fc00::/7", "fe80::/10"}}},
		},
	}}
}

// PolicyState is what is to be done about a template's NetworkPolicy.
type PolicyState string

// The states of a template's NetworkPolicy.
const (
	// PolicyCurrent: the policy is as it should be, or rightly not there.
	PolicyCurrent PolicyState = "current"
	// PolicyMissing: Policy is to be created.
	PolicyMissing PolicyState = "missing"
	// PolicyDrifted: PolicyPatch is to be applied.
	PolicyDrifted PolicyState = "drifted"
	// PolicyUnwanted: the policy is ours and the template wants none.
	PolicyUnwanted PolicyState = "unwanted"
	// PolicyTerminating: the policy is on its way out and has to be gone first.
	PolicyTerminating PolicyState = "terminating"
	// PolicyForeign: somebody else's policy has the name. It is left alone.
	PolicyForeign PolicyState = "foreign"
)

// AllowsSandboxes reports whether Sandboxes may be created from the template: its
// pods are isolated as it says from their first moment.
func (s PolicyState) AllowsSandboxes() bool { return s == PolicyCurrent || s == PolicyUnwanted }

// StateOf returns the state of t's NetworkPolicy. existing is what there is under its
// name, or nil.
func StateOf(existing *networkingv1.NetworkPolicy, t *extensions.SandboxTemplate) PolicyState {
	ours := existing != nil && (isPolicyOf(existing, t.Name) || control.IsControlledBy(existing, t.UID))
	switch {
	case !t.NetworkPolicyManaged() && ours && existing.DeletionTimestamp == nil:
		return PolicyUnwanted
	case !t.NetworkPolicyManaged():
		return PolicyCurrent
	case existing == nil:
		return PolicyMissing
	case !ours:
		return PolicyForeign
	case existing.DeletionTimestamp != nil:
		return PolicyTerminating
	case len(PolicyPatch(existing, t)) > 0:
		return PolicyDrifted
	default:
		return PolicyCurrent
	}
}

// isPolicyOf reports whether the policy was made for a template of that name. The
// template may have been deleted and made anew since.
func isPolicyOf(policy *networkingv1.NetworkPolicy, template string) bool {
	return policy.Annotations[agents.AnnotationTemplateUID] != "" && policy.Annotations[agents.AnnotationTemplateRef] == template
}

// PolicyPatch returns what makes existing the managed NetworkPolicy of t, and is empty
// if it is that already. A template that was made anew puts its UID on the policy of
// its predecessor, which also defeats a delete that was decided before. An owner
// reference to the template, as other controllers of this API set, is taken off.
func PolicyPatch(existing *networkingv1.NetworkPolicy, t *extensions.SandboxTemplate) consistent.Patch {
	metadata := map[string]any{}
	annotations := map[string]any{}
	for _, key := range []string{agents.AnnotationTemplateRef, agents.AnnotationTemplateUID} {
		if want := policyAnnotations(t)[key]; existing.Annotations[key] != want {
			annotations[key] = want
		}
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if control.IsControlledBy(existing, t.UID) {
		metadata["ownerReferences"] = ownersWithout(existing, t)
	}
	patch := consistent.Patch{}
	if len(metadata) > 0 {
		patch["metadata"] = metadata
	}
	if want := policySpec(t); !equality.Semantic.DeepEqual(existing.Spec, want) {
		// A merge patch replaces lists whole; Diff also names what is to go.
		if spec, differs, err := consistent.Diff(existing.Spec, want); err == nil && differs {
			patch["spec"] = spec
		}
	}
	return patch
}

func ownersWithout(existing *networkingv1.NetworkPolicy, t *extensions.SandboxTemplate) []metav1.OwnerReference {
	others := []metav1.OwnerReference{}
	for _, owner := range existing.OwnerReferences {
		if owner.UID != t.UID {
			others = append(others, owner)
		}
	}
	return others
}
