// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// SandboxWarmPoolUpdateStrategyType says what becomes of members that were
// made from an older blueprint.
// +kubebuilder:validation:Enum=Recreate;OnReplenish;RollingUpdate
type SandboxWarmPoolUpdateStrategyType string

const (
	// WarmPoolRecreate deletes older members at once; they cannot be claimed any more.
	WarmPoolRecreate SandboxWarmPoolUpdateStrategyType = "Recreate"
	// WarmPoolOnReplenish keeps older members until they are claimed.
	WarmPoolOnReplenish SandboxWarmPoolUpdateStrategyType = "OnReplenish"
	// WarmPoolRollingUpdate replaces older members step by step; until then
	// they can be claimed.
	WarmPoolRollingUpdate SandboxWarmPoolUpdateStrategyType = "RollingUpdate"
)

// SandboxTemplateRef names a SandboxTemplate of the same namespace.
type SandboxTemplateRef struct {
	// Name is the template's name.
	// +required
	Name string `json:"name"`
}

// SandboxWarmPoolRollingUpdate bounds a rolling update.
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || (type(self.maxUnavailable) == int ? self.maxUnavailable >= 0 : self.maxUnavailable.matches('^(100|[0-9]{1,2})%$'))",message="maxUnavailable must be a number, 0 or more, or a percentage from 0% to 100%"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || (type(self.maxSurge) == int ? self.maxSurge >= 0 : self.maxSurge.matches('^(100|[0-9]{1,2})%$'))",message="maxSurge must be a number, 0 or more, or a percentage from 0% to 100%"
// +kubebuilder:validation:XValidation:rule="!has(self.maxUnavailable) || !(self.maxUnavailable == 0 || self.maxUnavailable == '0%') || (has(self.maxSurge) && !(self.maxSurge == 0 || self.maxSurge == '0%'))",message="maxUnavailable and maxSurge must not both be 0; maxSurge is 0 unless set"
type SandboxWarmPoolRollingUpdate struct {
	// MaxUnavailable is how many members may be missing from replicas at a
	// time because of the update, as a number or as a percentage of replicas,
	// rounded down but to no less than 1 if maxSurge comes to 0. The default is 1.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MaxSurge is how many members there may be above replicas at a time
	// because of the update, as a number or as a percentage of replicas,
	// rounded up. The default is 0.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// SandboxWarmPoolUpdateStrategy says what becomes of members that were made
// from an older blueprint.
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",message="rollingUpdate may be set only when type is RollingUpdate"
type SandboxWarmPoolUpdateStrategy struct {
	// Type is OnReplenish, Recreate or RollingUpdate.
	// +optional
	// +kubebuilder:default=OnReplenish
	Type SandboxWarmPoolUpdateStrategyType `json:"type,omitempty"`

	// RollingUpdate bounds the update when type is RollingUpdate.
	// +optional
	RollingUpdate *SandboxWarmPoolRollingUpdate `json:"rollingUpdate,omitempty"`
}

// SandboxWarmPoolSpec is what a pool should be.
type SandboxWarmPoolSpec struct {
	// Replicas is the number of members that wait for a claim.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// SandboxTemplateRef names the template that members are made from.
	// +required
	TemplateRef SandboxTemplateRef `json:"sandboxTemplateRef"`

	// UpdateStrategy says what becomes of members made from an older blueprint.
	// +optional
	UpdateStrategy *SandboxWarmPoolUpdateStrategy `json:"updateStrategy,omitempty"`
}

// SandboxWarmPoolStatus is what was last observed of a pool.
type SandboxWarmPoolStatus struct {
	// Replicas is the number of members, ready or not, that are not on their way out.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// ReadyReplicas is the number of members that are Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// UpdatedReplicas is the number of members made from the current blueprint.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`

	// Selector selects the members and their pods.
	// +optional
	Selector string `json:"selector,omitempty"`

	// ObservedGeneration is the generation of the pool this status was made from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Available, Progressing and TemplateResolved.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SandboxWarmPool keeps Sandboxes ready for claims. Members are named after the
// pool, shortened where needed, so that a pool may have any valid name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,shortName=swp
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SandboxWarmPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec SandboxWarmPoolSpec `json:"spec"`
	// +optional
	Status SandboxWarmPoolStatus `json:"status,omitempty"`
}

// SandboxWarmPoolList is a list of SandboxWarmPools.
//
// +kubebuilder:object:root=true
type SandboxWarmPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxWarmPool `json:"items"`
}

// DesiredReplicas is the number of members the pool should have.
func (p *SandboxWarmPool) DesiredReplicas() int32 {
	if p.Spec.Replicas == nil {
		return 1
	}
	return *p.Spec.Replicas
}

// UpdateStrategyType is the update strategy in force.
func (p *SandboxWarmPool) UpdateStrategyType() SandboxWarmPoolUpdateStrategyType {
	if p.Spec.UpdateStrategy == nil || p.Spec.UpdateStrategy.Type == "" {
		return WarmPoolOnReplenish
	}
	return p.Spec.UpdateStrategy.Type
}

// GetConditions gives the pool's conditions.
func (p *SandboxWarmPool) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the pool's conditions.
func (p *SandboxWarmPool) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}
