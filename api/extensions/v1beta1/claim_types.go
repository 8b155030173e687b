// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// ClaimShutdownPolicy says what becomes of a claim that has expired.
// +kubebuilder:validation:Enum=Delete;DeleteForeground;Retain
type ClaimShutdownPolicy string

const (
	// ClaimShutdownDelete deletes the claim; its Sandbox follows.
	ClaimShutdownDelete ClaimShutdownPolicy = "Delete"
	// ClaimShutdownDeleteForeground deletes the claim, which stays until its
	// Sandbox and pod are gone.
	ClaimShutdownDeleteForeground ClaimShutdownPolicy = "DeleteForeground"
	// ClaimShutdownRetain deletes the Sandbox and keeps the claim.
	ClaimShutdownRetain ClaimShutdownPolicy = "Retain"
)

// SandboxLostAction says what becomes of a claim whose Sandbox is gone.
// +kubebuilder:validation:Enum=Report;Replace
type SandboxLostAction string

const (
	// SandboxLostReport says so in the claim's Ready condition, and waits for a person.
	SandboxLostReport SandboxLostAction = "Report"
	// SandboxLostReplace gives the claim another Sandbox.
	SandboxLostReplace SandboxLostAction = "Replace"
)

// Values of SandboxClaimSpec.WarmPool that are not the name of a pool.
const (
	// WarmPoolChoiceDefault is any pool of the claim's template, or none if it has none.
	WarmPoolChoiceDefault = "default"
	// WarmPoolChoiceNone is no pool: the Sandbox is made for the claim.
	WarmPoolChoiceNone = "none"
)

// SandboxWarmPoolRef names a SandboxWarmPool of the same namespace.
type SandboxWarmPoolRef struct {
	// Name is the pool's name.
	// +required
	Name string `json:"name"`
}

// ClaimLifecycle says how long a claim lives, and what happens at its end.
type ClaimLifecycle struct {
	// ShutdownTime is when the claim expires. Unset means never.
	// +optional
	ShutdownTime *metav1.Time `json:"shutdownTime,omitempty"`

	// TTLSecondsAfterFinished is how many seconds after its Sandbox finished
	// the claim expires. 0 means at once, unset never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// ShutdownPolicy says what happens when the claim expires.
	// +optional
	// +kubebuilder:default=Retain
	ShutdownPolicy ClaimShutdownPolicy `json:"shutdownPolicy,omitempty"`

	// BindDeadlineSeconds is how many seconds after its creation a claim that
	// has no Sandbox yet stops waiting for one. Unset means never.
	// +optional
	// +kubebuilder:validation:Minimum=1
	BindDeadlineSeconds *int32 `json:"bindDeadlineSeconds,omitempty"`

	// SandboxLost says what happens when the claim's Sandbox is gone after it
	// had been Ready: Report, the default, says so in the Ready condition;
	// Replace gives the claim another Sandbox, without what was in the old one.
	// +optional
	SandboxLost SandboxLostAction `json:"sandboxLost,omitempty"`
}

// EnvVar is an environment variable that a claim sets.
type EnvVar struct {
	// Name is the variable's name.
	// +required
	Name string `json:"name"`

	// Value is the variable's value.
	// +required
	Value string `json:"value"`

	// ContainerName is the container that gets it. Unset means the first one.
	// +optional
	ContainerName string `json:"containerName,omitempty"`
}

// SandboxClaimSpec is what a claim asks for.
// +kubebuilder:validation:XValidation:rule="(has(self.warmPoolRef) && self.warmPoolRef.name.size() > 0) || (has(self.sandboxTemplateRef) && self.sandboxTemplateRef.name.size() > 0)",message="a claim needs spec.warmPoolRef.name, the pool to take a sandbox from, or spec.sandboxTemplateRef.name, the template to make one from"
type SandboxClaimSpec struct {
	// WarmPoolRef names the pool to take a Sandbox from. Where it is set,
	// sandboxTemplateRef and warmpool do not count. An empty name counts as unset.
	// +optional
	WarmPoolRef *SandboxWarmPoolRef `json:"warmPoolRef,omitempty"`

	// TemplateRef names the template to make a Sandbox from.
	// +optional
	TemplateRef *SandboxTemplateRef `json:"sandboxTemplateRef,omitempty"`

	// WarmPool says where a claim with sandboxTemplateRef may take a Sandbox
	// from: the name of a pool; "none"; or "default", any pool of the template.
	// +optional
	WarmPool *string `json:"warmpool,omitempty"`

	// Lifecycle says how long the claim lives.
	// +optional
	Lifecycle *ClaimLifecycle `json:"lifecycle,omitempty"`

	// AdditionalPodMetadata is added to the labels and annotations of the pod.
	// +optional
	AdditionalPodMetadata agents.PodMetadata `json:"additionalPodMetadata,omitzero"`

	// Env are environment variables for the Sandbox. A claim with any gets a
	// Sandbox of its own.
	// +optional
	// +listType=atomic
	Env []EnvVar `json:"env,omitempty"`

	// VolumeClaimTemplates are volumes for the Sandbox. A claim with any gets
	// a Sandbox of its own.
	// +optional
	// +listType=atomic
	VolumeClaimTemplates []agents.PersistentVolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`
}

// ClaimedSandbox is the Sandbox that a claim is bound to.
type ClaimedSandbox struct {
	// Name is the Sandbox's name.
	// +optional
	Name string `json:"name,omitempty"`

	// UID is the Sandbox's UID. With name it is set once.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// PodIPs are the addresses of the Sandbox's pod.
	// +optional
	PodIPs []string `json:"podIPs,omitempty"`
}

// SandboxClaimStatus is what was last observed of a claim.
type SandboxClaimStatus struct {
	// Conditions are the claim's conditions, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Sandbox is the Sandbox that the claim is bound to.
	// +optional
	Sandbox ClaimedSandbox `json:"sandbox,omitzero"`
}

// SandboxClaim asks for a Sandbox, from a warm pool or made for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sandboxclaim
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.status.sandbox.name`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 63",message="metadata.name must have no more than 63 characters, because a Sandbox made for the claim has its name; choose a shorter name",optionalOldSelf=true
type SandboxClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec SandboxClaimSpec `json:"spec"`
	// +optional
	Status SandboxClaimStatus `json:"status,omitempty"`
}

// SandboxClaimList is a list of SandboxClaims.
//
// +kubebuilder:object:root=true
type SandboxClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxClaim `json:"items"`
}

// PoolName is the name of the pool the claim names, or "" if it names none:
// then TemplateName is set, and a pool may still be chosen for it (see AnyPool).
func (c *SandboxClaim) PoolName() string {
	if c.Spec.WarmPoolRef != nil && c.Spec.WarmPoolRef.Name != "" {
		return c.Spec.WarmPoolRef.Name
	}
	switch {
	case c.Spec.WarmPool == nil, *c.Spec.WarmPool == "", *c.Spec.WarmPool == WarmPoolChoiceDefault, *c.Spec.WarmPool == WarmPoolChoiceNone:
		return ""
	default:
		return *c.Spec.WarmPool
	}
}

// TemplateName is the name of the template the claim names, or "" if its pool
// decides that.
func (c *SandboxClaim) TemplateName() string {
	if c.Spec.WarmPoolRef != nil && c.Spec.WarmPoolRef.Name != "" || c.Spec.TemplateRef == nil {
		return ""
	}
	return c.Spec.TemplateRef.Name
}

// AnyPool says whether the claim takes a Sandbox from any pool of its template.
func (c *SandboxClaim) AnyPool() bool {
	return c.TemplateName() != "" && c.PoolName() == "" &&
		(c.Spec.WarmPool == nil || *c.Spec.WarmPool != WarmPoolChoiceNone)
}

// NeedsOwnSandbox says whether the claim asks for what no pool member can
// have: environment variables or volumes of its own.
func (c *SandboxClaim) NeedsOwnSandbox() bool {
	return len(c.Spec.Env) > 0 || len(c.Spec.VolumeClaimTemplates) > 0
}

// ShutdownPolicy is the shutdown policy in force.
func (c *SandboxClaim) ShutdownPolicy() ClaimShutdownPolicy {
	if c.Spec.Lifecycle == nil || c.Spec.Lifecycle.ShutdownPolicy == "" {
		return ClaimShutdownRetain
	}
	return c.Spec.Lifecycle.ShutdownPolicy
}

// ReplacesLostSandbox says whether the claim wants another Sandbox when its own is gone.
func (c *SandboxClaim) ReplacesLostSandbox() bool {
	return c.Spec.Lifecycle != nil && c.Spec.Lifecycle.SandboxLost == SandboxLostReplace
}

// GetConditions gives the claim's conditions.
func (c *SandboxClaim) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the claim's conditions.
func (c *SandboxClaim) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }
