// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Domain is the prefix of the labels and annotations of this API.
const Domain = "rossoctl.io"

// Keys on a workload, on its pod template, or on both.
const (
	// LabelType holds spec.type, on the workload and on its pod template.
	LabelType = Domain + "/type"
	// LabelManagedBy says who manages a workload, on the workload. It is written only
	// where nobody else has said so; see ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// AnnotationConfigHash holds the configuration's hash, on the pod template.
	AnnotationConfigHash = Domain + "/config-hash"
	// AnnotationMTLSMode holds spec.mtlsMode, on the pod template.
	AnnotationMTLSMode = Domain + "/mtls-mode"
	// AnnotationRollout is this controller's own record, on the workload: whose
	// configuration it has, and which of a Sandbox's pods are older than it. Nothing else
	// may write it.
	AnnotationRollout = GroupName + "/rollout"
)

// ManagedBy is the value of LabelManagedBy on workloads that had none.
const ManagedBy = "rossoctl-operator"

// Keys on an AgentRuntime.
const (
	// Finalizer keeps an AgentRuntime until what it put on its workload is off again.
	Finalizer = Domain + "/cleanup"
	// AnnotationPaused with value PausedTrue stops rollouts: nothing is stamped and no pod
	// is deleted until it is taken off.
	AnnotationPaused = Domain + "/rollout-paused"
	// PausedTrue is the value of AnnotationPaused that counts.
	PausedTrue = "true"
)

// Where the configuration is.
const (
	// DefaultOperatorNamespace holds the cluster's ConfigMaps unless the controller is
	// told otherwise.
	DefaultOperatorNamespace = "rossoctl-system"
	// ConfigMapPlatform holds the cluster's defaults, in the operator's namespace.
	ConfigMapPlatform = "rossoctl-platform-config"
	// ConfigMapFeatureGates holds the cluster's feature gates, in the operator's namespace.
	ConfigMapFeatureGates = "rossoctl-feature-gates"
	// ConfigMapAuthBridgeRuntime configures a namespace's sidecars, in the key
	// ConfigMapAuthBridgeRuntimeKey.
	ConfigMapAuthBridgeRuntime = "authbridge-runtime-config"
	// ConfigMapAuthBridgeRuntimeKey is the key of ConfigMapAuthBridgeRuntime that counts.
	ConfigMapAuthBridgeRuntimeKey = "config.yaml"
	// ConfigMapSPIFFEHelper configures a namespace's SPIFFE helpers, in the key
	// ConfigMapSPIFFEHelperKey.
	ConfigMapSPIFFEHelper = "spiffe-helper-config"
	// ConfigMapSPIFFEHelperKey is the key of ConfigMapSPIFFEHelper that counts.
	ConfigMapSPIFFEHelperKey = "helper.conf"
	// LabelDefaults with value DefaultsTrue marks a namespace's defaults, which override
	// the cluster's key by key.
	LabelDefaults = Domain + "/defaults"
	// DefaultsTrue is the value of LabelDefaults that counts.
	DefaultsTrue = "true"
)

// FieldManager owns what this controller applies to workloads.
const FieldManager = "berth-agentruntime"
