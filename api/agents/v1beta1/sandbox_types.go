// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OperatingMode says whether a Sandbox has a pod.
// +kubebuilder:validation:Enum=Running;Suspended
type OperatingMode string

const (
	// OperatingModeRunning means that the Sandbox has a pod.
	OperatingModeRunning OperatingMode = "Running"
	// OperatingModeSuspended means that the Sandbox has no pod. Its volumes stay.
	OperatingModeSuspended OperatingMode = "Suspended"
)

// ShutdownPolicy says what becomes of a Sandbox when its shutdown time has come.
// +kubebuilder:validation:Enum=Delete;Retain
type ShutdownPolicy string

const (
	// ShutdownPolicyDelete deletes the Sandbox.
	ShutdownPolicyDelete ShutdownPolicy = "Delete"
	// ShutdownPolicyRetain deletes pod and Service, and keeps the Sandbox and its volumes.
	ShutdownPolicyRetain ShutdownPolicy = "Retain"
)

// SandboxUpdateStrategyType says what a change of the pod template does to a
// pod that was made from an older one.
// +kubebuilder:validation:Enum=OnDelete;Recreate
type SandboxUpdateStrategyType string

const (
	// SandboxUpdateOnDelete leaves the pod alone until something else deletes it.
	// Labels and annotations are still brought up to date in place.
	SandboxUpdateOnDelete SandboxUpdateStrategyType = "OnDelete"
	// SandboxUpdateRecreate deletes the pod and makes a new one, for any change of the template.
	SandboxUpdateRecreate SandboxUpdateStrategyType = "Recreate"
)

// SandboxUpdateStrategy says what a change of the pod template does.
type SandboxUpdateStrategy struct {
	// Type is OnDelete, the default: the running pod keeps its spec until it
	// is deleted, labels and annotations are changed in place, and the
	// condition PodOutdated says what differs; or Recreate: any change of the
	// pod template replaces the pod. A Sandbox owned by a warm pool is never
	// replaced this way; the pool's own updateStrategy decides for it.
	// +optional
	// +kubebuilder:default=OnDelete
	Type SandboxUpdateStrategyType `json:"type,omitempty"`
}

// PodFailureAction says what becomes of a failed pod.
// +kubebuilder:validation:Enum=Keep;Replace
type PodFailureAction string

const (
	// PodFailureKeep leaves the failed pod where it is; the Sandbox is finished.
	PodFailureKeep PodFailureAction = "Keep"
	// PodFailureReplace replaces the failed pod, with a growing pause between attempts.
	PodFailureReplace PodFailureAction = "Replace"
)

// SandboxSpec is what a Sandbox should be.
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplates) == has(oldSelf.volumeClaimTemplates) && (!has(self.volumeClaimTemplates) || self.volumeClaimTemplates == oldSelf.volumeClaimTemplates)",message="volumeClaimTemplates is immutable"
// +kubebuilder:validation:XValidation:rule="!has(self.operatingMode) || !has(oldSelf.operatingMode) || !has(self.replicas) || !has(oldSelf.replicas) || !(self.operatingMode == 'Suspended' && oldSelf.operatingMode == 'Suspended' && self.replicas == 1 && oldSelf.replicas == 0)",message="replicas cannot be raised while operatingMode is Suspended: the Sandbox would not run; set spec.operatingMode to Running as well"
// +kubebuilder:validation:XValidation:rule="!has(self.operatingMode) || !has(oldSelf.operatingMode) || !has(self.replicas) || !has(oldSelf.replicas) || !(self.operatingMode == 'Running' && oldSelf.operatingMode == 'Suspended' && self.replicas == 0 && oldSelf.replicas == 0)",message="operatingMode cannot become Running while replicas is 0: the Sandbox would not run; set spec.replicas to 1 as well"
// +kubebuilder:validation:XValidation:rule="has(self.operatingMode) || !has(oldSelf.operatingMode) || oldSelf.operatingMode != 'Suspended' || (has(self.replicas) && self.replicas == 0)",message="operatingMode is Suspended and left out of this write, which would start the Sandbox; send Suspended to keep it so, or Running"
type SandboxSpec struct {
	SandboxBlueprint `json:",inline"`

	// ShutdownTime is when the Sandbox expires. Unset means never.
	// +optional
	ShutdownTime *metav1.Time `json:"shutdownTime,omitempty"`

	// ShutdownPolicy says what happens at ShutdownTime.
	// +optional
	// +kubebuilder:default=Retain
	ShutdownPolicy ShutdownPolicy `json:"shutdownPolicy,omitempty"`

	// OperatingMode says whether the Sandbox has a pod. A Sandbox runs if this
	// is not Suspended and Replicas is not 0; see Sandbox.Running.
	// +optional
	// +kubebuilder:default=Running
	OperatingMode OperatingMode `json:"operatingMode,omitempty"`

	// Replicas is the number of pods, 0 or 1. It is another way to say
	// operatingMode, for clients that know only this one and for the scale
	// subresource. An admission policy keeps the two equal: the one that a
	// write changes wins. Unset means that operatingMode alone decides.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	Replicas *int32 `json:"replicas,omitempty"`

	// UpdateStrategy says what a change of podTemplate does to a running pod.
	// +optional
	UpdateStrategy *SandboxUpdateStrategy `json:"updateStrategy,omitempty"`

	// PodFailureAction says what happens to a pod that failed: Keep, the
	// default, leaves it and reports the Sandbox as finished; Replace deletes
	// it and makes a new one, with a growing pause that status.podFailures
	// remembers. A pod that succeeded is never replaced.
	// +optional
	PodFailureAction PodFailureAction `json:"podFailureAction,omitempty"`
}

// PodFailures remembers the failures of a Sandbox's pods, for the pause before
// the next attempt.
type PodFailures struct {
	// Count is the number of pods that failed in a row.
	// +optional
	Count int32 `json:"count,omitempty"`

	// LastFailureTime is when the last of them was seen to have failed.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`

	// LastPodUID is the UID of the last of them, so that none is counted twice.
	// +optional
	LastPodUID types.UID `json:"lastPodUID,omitempty"`
}

// SandboxStatus is what was last observed of a Sandbox.
type SandboxStatus struct {
	// ServiceFQDN is the DNS name of the Sandbox's Service.
	// +optional
	ServiceFQDN string `json:"serviceFQDN,omitempty"`

	// Service is the name of the Sandbox's Service.
	// +optional
	Service string `json:"service,omitempty"`

	// Conditions are the Sandbox's conditions, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LabelSelector selects the Sandbox's pod: "agents.x-k8s.io/sandbox-name-hash=<hash>".
	// +optional
	LabelSelector string `json:"selector,omitempty"`

	// PodIPs are the addresses of the Sandbox's pod.
	// +optional
	PodIPs []string `json:"podIPs,omitempty"`

	// NodeName is the node that the Sandbox's pod is on.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// ObservedGeneration is the generation of the Sandbox this status was made from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Replicas is the number of live pods, 0 or 1.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// CurrentRevision is the revision of the pod template that the running pod was made from.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// UpdateRevision is the revision of the pod template as it is now. If it
	// differs from currentRevision, the pod is outdated.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// PodFailures is kept while pods of the Sandbox fail and podFailureAction is Replace.
	// +optional
	PodFailures *PodFailures `json:"podFailures,omitempty"`
}

// Sandbox is one isolated place for an agent to work in: a pod, its volumes,
// and a name to reach it by.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,shortName=sandbox
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || self.metadata.name.size() <= 63",message="metadata.name must have no more than 63 characters, because the Sandbox's pod and Service are named after it; choose a shorter name",optionalOldSelf=true
// +kubebuilder:validation:XValidation:rule="!has(self.spec.service) || !self.spec.service || !self.metadata.name.contains('.') || (oldSelf.hasValue() && has(oldSelf.value().spec.service) && oldSelf.value().spec.service)",message="metadata.name must have no dots where spec.service is true, because the Sandbox's Service is named after it; choose a name without dots or leave spec.service out",optionalOldSelf=true
type Sandbox struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec SandboxSpec `json:"spec"`
	// +optional
	Status SandboxStatus `json:"status,omitempty"`
}

// SandboxList is a list of Sandboxes.
//
// +kubebuilder:object:root=true
type SandboxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Sandbox `json:"items"`
}

// Running says whether the Sandbox should have a pod: its operating mode is
// not Suspended, and its replicas are not 0. What is absent counts as on.
// Expiry is not looked at.
func (s *Sandbox) Running() bool {
	return s.Spec.OperatingMode != OperatingModeSuspended &&
		(s.Spec.Replicas == nil || *s.Spec.Replicas != 0)
}

// UpdateStrategyType is the update strategy in force.
func (s *Sandbox) UpdateStrategyType() SandboxUpdateStrategyType {
	if s.Spec.UpdateStrategy == nil || s.Spec.UpdateStrategy.Type == "" {
		return SandboxUpdateOnDelete
	}
	return s.Spec.UpdateStrategy.Type
}

// ReplacesFailedPods says whether a failed pod of the Sandbox is replaced.
func (s *Sandbox) ReplacesFailedPods() bool {
	return s.Spec.PodFailureAction == PodFailureReplace
}

// GetConditions gives the Sandbox's conditions.
func (s *Sandbox) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the Sandbox's conditions.
func (s *Sandbox) SetConditions(conditions []metav1.Condition) { s.Status.Conditions = conditions }
