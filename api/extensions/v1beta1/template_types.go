// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// NetworkPolicyManagement says who looks after a template's NetworkPolicy.
// +kubebuilder:validation:Enum=Managed;Unmanaged
type NetworkPolicyManagement string

const (
	// NetworkPolicyManaged means that the controller keeps a NetworkPolicy for
	// the template's pods.
	NetworkPolicyManaged NetworkPolicyManagement = "Managed"
	// NetworkPolicyUnmanaged means that it keeps none.
	NetworkPolicyUnmanaged NetworkPolicyManagement = "Unmanaged"
)

// EnvVarsInjectionPolicy says whether claims may set environment variables.
// +kubebuilder:validation:Enum=Allowed;Overrides;Disallowed
type EnvVarsInjectionPolicy string

const (
	// EnvVarsInjectionAllowed lets claims add variables.
	EnvVarsInjectionAllowed EnvVarsInjectionPolicy = "Allowed"
	// EnvVarsInjectionOverrides lets claims add and replace variables.
	EnvVarsInjectionOverrides EnvVarsInjectionPolicy = "Overrides"
	// EnvVarsInjectionDisallowed refuses claims with variables.
	EnvVarsInjectionDisallowed EnvVarsInjectionPolicy = "Disallowed"
)

// VolumeClaimTemplatesPolicy says whether claims may set volume claim templates.
// +kubebuilder:validation:Enum=Disallowed;Allowed;Overrides
type VolumeClaimTemplatesPolicy string

const (
	// VolumeClaimTemplatesDisallowed refuses claims with volume claim templates.
	VolumeClaimTemplatesDisallowed VolumeClaimTemplatesPolicy = "Disallowed"
	// VolumeClaimTemplatesAllowed lets claims add volume claim templates.
	VolumeClaimTemplatesAllowed VolumeClaimTemplatesPolicy = "Allowed"
	// VolumeClaimTemplatesOverrides lets claims add and replace volume claim templates.
	VolumeClaimTemplatesOverrides VolumeClaimTemplatesPolicy = "Overrides"
)

// NetworkPolicySpec holds the rules of a template's NetworkPolicy. A list that
// is empty or absent lets nothing through in its direction.
type NetworkPolicySpec struct {
	// Ingress are the rules for connections to the pods.
	// +optional
	Ingress []networkingv1.NetworkPolicyIngressRule `json:"ingress,omitempty"`

	// Egress are the rules for connections from the pods.
	// +optional
	Egress []networkingv1.NetworkPolicyEgressRule `json:"egress,omitempty"`
}

// SandboxTemplateSpec is the blueprint of Sandboxes, and what claims may add to it.
type SandboxTemplateSpec struct {
	agents.SandboxBlueprint `json:",inline"`

	// NetworkPolicy replaces the default rules. It counts only while
	// networkPolicyManagement is Managed.
	// +optional
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`

	// NetworkPolicyManagement says whether a NetworkPolicy is kept for the pods.
	// +optional
	// +kubebuilder:default=Managed
	NetworkPolicyManagement NetworkPolicyManagement `json:"networkPolicyManagement,omitempty"`

	// EnvVarsInjectionPolicy says whether claims may set environment variables.
	// +optional
	// +kubebuilder:default=Disallowed
	EnvVarsInjectionPolicy EnvVarsInjectionPolicy `json:"envVarsInjectionPolicy,omitempty"`

	// VolumeClaimTemplatesPolicy says whether claims may set volume claim templates.
	// +optional
	// +kubebuilder:default=Disallowed
	VolumeClaimTemplatesPolicy VolumeClaimTemplatesPolicy `json:"volumeClaimTemplatesPolicy,omitempty"`

	// UpdateStrategy is copied to Sandboxes at their creation.
	// +optional
	UpdateStrategy *agents.SandboxUpdateStrategy `json:"updateStrategy,omitempty"`

	// PodFailureAction is copied to Sandboxes at their creation.
	// +optional
	PodFailureAction agents.PodFailureAction `json:"podFailureAction,omitempty"`
}

// SandboxTemplateStatus is empty.
type SandboxTemplateStatus struct{}

// SandboxTemplate is a blueprint that warm pools and claims make Sandboxes from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=sandboxtemplate
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 238",message="metadata.name must have no more than 238 characters, because the template's NetworkPolicy is named <name>-network-policy; choose a shorter name",optionalOldSelf=true
type SandboxTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec SandboxTemplateSpec `json:"spec"`
	// +optional
	Status SandboxTemplateStatus `json:"status,omitempty"`
}

// SandboxTemplateList is a list of SandboxTemplates.
//
// +kubebuilder:object:root=true
type SandboxTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxTemplate `json:"items"`
}

// NetworkPolicyManaged says whether the controller keeps a NetworkPolicy for the template's pods.
func (t *SandboxTemplate) NetworkPolicyManaged() bool {
	return t.Spec.NetworkPolicyManagement != NetworkPolicyUnmanaged
}

// NetworkPolicyName is the name of a template's managed NetworkPolicy.
func NetworkPolicyName(template string) string { return template + "-network-policy" }
