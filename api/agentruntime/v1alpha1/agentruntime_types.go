// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// RuntimeType says what a workload is.
// +kubebuilder:validation:Enum=agent;tool
type RuntimeType string

const (
	// RuntimeTypeAgent is a workload that acts.
	RuntimeTypeAgent RuntimeType = "agent"
	// RuntimeTypeTool is a workload that agents call.
	RuntimeTypeTool RuntimeType = "tool"
)

// MTLSMode says whether a workload speaks mutual TLS.
// +kubebuilder:validation:Enum=disabled;permissive;strict
type MTLSMode string

const (
	// MTLSDisabled is plain text.
	MTLSDisabled MTLSMode = "disabled"
	// MTLSPermissive takes both.
	MTLSPermissive MTLSMode = "permissive"
	// MTLSStrict takes nothing else.
	MTLSStrict MTLSMode = "strict"
)

// Phase sums the conditions up.
// +kubebuilder:validation:Enum=Pending;Active;Error
type Phase string

const (
	// PhasePending means that the workload does not have the configuration yet.
	PhasePending Phase = "Pending"
	// PhaseActive means that the AgentRuntime is Ready.
	PhaseActive Phase = "Active"
	// PhaseError means that something has to be corrected first; Ready says what.
	PhaseError Phase = "Error"
)

// TargetReference names a workload in the AgentRuntime's namespace.
type TargetReference struct {
	// APIVersion is the workload's group and version. The version is not looked at: the
	// one that the server serves is used.
	// +required
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`

	// Kind is Deployment, StatefulSet or Sandbox.
	// +required
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`

	// Name is the workload's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// OutboundDestination is where a request goes.
type OutboundDestination struct {
	// Host is a host's name.
	// +optional
	Host string `json:"host,omitempty"`

	// HostRegex is a regular expression of hosts' names.
	// +optional
	HostRegex string `json:"hostRegex,omitempty"`
}

// OutboundRoute says for whom tokens are exchanged on requests to a destination.
type OutboundRoute struct {
	// +required
	Destination OutboundDestination `json:"destination"`

	// Audiences are whom the token is for.
	// +required
	// +kubebuilder:validation:MinItems=1
	Audiences []string `json:"audiences"`
}

// Auth says how a workload's requests are authenticated.
type Auth struct {
	// Outbound are routes of requests that the workload makes.
	// +optional
	Outbound []OutboundRoute `json:"outbound,omitempty"`
}

// SPIFFEIdentity says where a workload's identity is from.
type SPIFFEIdentity struct {
	// TrustDomain is the SPIFFE trust domain.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([a-zA-Z0-9\-\.]*[a-zA-Z0-9])?$`
	TrustDomain string `json:"trustDomain,omitempty"`
}

// Identity says who a workload is.
type Identity struct {
	// +optional
	SPIFFE *SPIFFEIdentity `json:"spiffe,omitempty"`

	// AllowedAudiences are whom tokens may be for.
	// +optional
	AllowedAudiences []string `json:"allowedAudiences,omitempty"`
}

// AgentRuntimeSpec says which workload is configured, and how.
//
// The fields below mtlsMode are taken and kept for what reads them when a pod is
// created, such as an admission webhook. This controller does not: a change of them
// reaches a pod with its next restart.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tlsBridgeMode) || self.tlsBridgeMode != 'enabled' || !has(self.authBridgeMode) || self.authBridgeMode in ['proxy-sidecar', 'lite']",message="tlsBridgeMode enabled needs authBridgeMode proxy-sidecar or lite, or none"
// +kubebuilder:validation:XValidation:rule="!has(self.pluginPreset) || !has(self.plugins) || self.plugins.all(p, p.matches('^(a2a-parser|jwt-validation|token-exchange|token-broker|inference-parser|mcp-parser|ibac)(:(enforce|observe|off))?$'))",message="plugins are NAME or NAME:POLICY; names are a2a-parser, jwt-validation, token-exchange, token-broker, inference-parser, mcp-parser and ibac, policies are enforce, observe and off"
type AgentRuntimeSpec struct {
	// Type says what the workload is: an agent, or a tool.
	// +required
	Type RuntimeType `json:"type"`

	// TargetRef names the workload. Of several AgentRuntimes that name the same one, the
	// oldest has it.
	// +required
	TargetRef TargetReference `json:"targetRef"`

	// MTLSMode says whether the workload speaks mutual TLS. A change replaces its pods.
	// +optional
	// +kubebuilder:default=permissive
	MTLSMode MTLSMode `json:"mtlsMode,omitempty"`

	// AuthBridgeMode is the shape of the sidecar.
	// +optional
	// +kubebuilder:validation:Enum=proxy-sidecar;envoy-sidecar;lite;waypoint
	AuthBridgeMode string `json:"authBridgeMode,omitempty"`

	// TLSBridgeMode says whether the sidecar opens TLS connections with an authority of its own.
	// +optional
	// +kubebuilder:validation:Enum=disabled;enabled
	// +kubebuilder:default=disabled
	TLSBridgeMode string `json:"tlsBridgeMode,omitempty"`

	// EgressEnforcement says whether outgoing connections are led to the sidecar.
	// +optional
	// +kubebuilder:validation:Enum=enforce-redirect;none
	EgressEnforcement string `json:"egressEnforcement,omitempty"`

	// Auth says how requests are authenticated.
	// +optional
	Auth *Auth `json:"auth,omitempty"`

	// PluginPreset is a set of the sidecar's plugins.
	// +optional
	// +kubebuilder:validation:Enum=auth-only;ibac-only;full
	PluginPreset string `json:"pluginPreset,omitempty"`

	// Plugins change the preset: NAME or NAME:POLICY.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	Plugins []string `json:"plugins,omitempty"`

	// OnError says what the plugins do with a request they fail on.
	// +optional
	// +kubebuilder:validation:Enum=enforce;observe;off
	OnError string `json:"onError,omitempty"`

	// Identity is of older manifests. Nothing reads it.
	// +optional
	Identity *Identity `json:"identity,omitempty"`

	// Trace is of older manifests. Nothing reads it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Trace *runtime.RawExtension `json:"trace,omitempty"`
}

// WorkloadReference names a workload in the AgentRuntime's namespace, whatever the
// version it is served in.
type WorkloadReference struct {
	// +optional
	Group string `json:"group,omitempty"`
	// +required
	Kind string `json:"kind"`
	// +required
	Name string `json:"name"`
}

// PodCounts counts a workload's pods that are neither finished nor on their way out.
type PodCounts struct {
	// Total is all of them.
	// +optional
	Total int32 `json:"total"`

	// Updated were made with the configuration.
	// +optional
	Updated int32 `json:"updated"`

	// Ready were made with the configuration and are ready.
	// +optional
	Ready int32 `json:"ready"`
}

// AgentRuntimeStatus is what was last observed of an AgentRuntime and its workload.
type AgentRuntimeStatus struct {
	// Phase sums the conditions up: Pending, Active or Error.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// ObservedGeneration is the generation of the AgentRuntime this status was made from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// ConfiguredPods is the number of pods that are proved to have been made with the
	// configuration whose hash is appliedConfigHash.
	// +optional
	ConfiguredPods int32 `json:"configuredPods"`

	// DesiredConfigHash is the hash of the configuration as it is.
	// +optional
	DesiredConfigHash string `json:"desiredConfigHash,omitempty"`

	// AppliedConfigHash is the hash that the workload's pod template has. Once no pod is
	// left that was made before, RolloutComplete is True.
	// +optional
	AppliedConfigHash string `json:"appliedConfigHash,omitempty"`

	// Pods counts the workload's pods.
	// +optional
	Pods *PodCounts `json:"pods,omitempty"`

	// Target is the workload that has, or is about to get, this AgentRuntime's
	// configuration. It is written before the workload is, so that what is there can be
	// taken off again after spec.targetRef changed.
	// +optional
	Target *WorkloadReference `json:"target,omitempty"`

	// RolloutStartTime is when the rollout under way began.
	// +optional
	RolloutStartTime *metav1.Time `json:"rolloutStartTime,omitempty"`

	// Conditions are the AgentRuntime's conditions, one of each type.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AgentRuntime gives a workload the configuration of its namespace, and keeps it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=art;agentrt
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AgentRuntime struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AgentRuntimeSpec `json:"spec"`
	// +optional
	Status AgentRuntimeStatus `json:"status,omitempty"`
}

// AgentRuntimeList is a list of AgentRuntimes.
//
// +kubebuilder:object:root=true
type AgentRuntimeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AgentRuntime `json:"items"`
}

// MTLS is the mTLS mode in force.
func (r *AgentRuntime) MTLS() MTLSMode {
	if r.Spec.MTLSMode == "" {
		return MTLSPermissive
	}
	return r.Spec.MTLSMode
}

// Paused says whether rollouts are paused.
func (r *AgentRuntime) Paused() bool { return r.Annotations[AnnotationPaused] == PausedTrue }

// GetConditions gives the AgentRuntime's conditions.
func (r *AgentRuntime) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the AgentRuntime's conditions.
func (r *AgentRuntime) SetConditions(conditions []metav1.Condition) { r.Status.Conditions = conditions }
