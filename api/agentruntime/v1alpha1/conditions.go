// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of an AgentRuntime.
const (
	// ConditionTargetResolved says whether the workload was found.
	ConditionTargetResolved = "TargetResolved"
	// ConditionConfigResolved says whether the configuration could be read.
	ConditionConfigResolved = "ConfigResolved"
	// ConditionReady is True when every pod that should run does, and was made with the
	// configuration.
	ConditionReady = "Ready"
	// ConditionMTLSReady says whether the workload can have the identities that its mTLS
	// mode needs. Nothing depends on it.
	ConditionMTLSReady = "MTLSReady"
	// ConditionIstioMeshEnrolled is other operators'. This one labels no namespaces.
	ConditionIstioMeshEnrolled = "IstioMeshEnrolled"
	// ConditionRolloutComplete says whether pods are left that were made without the
	// configuration, and what is done about them.
	ConditionRolloutComplete = "RolloutComplete"
	// ConditionConfigConflict is True while somebody else has a say about what this
	// controller puts on the workload.
	ConditionConfigConflict = "ConfigConflict"
)

// Reasons of TargetResolved. Those that are False are reasons of Ready too.
const (
	// ReasonTargetFound: there is such a workload.
	ReasonTargetFound = "TargetFound"
	// ReasonTargetNotFound: there is no such workload.
	ReasonTargetNotFound = "TargetNotFound"
	// ReasonTargetResolveError: the reference is wrong, or the workload could not be read.
	ReasonTargetResolveError = "TargetResolveError"
)

// Reasons of ConfigResolved.
const (
	// ReasonConfigResolved: the configuration was read.
	ReasonConfigResolved = "ConfigResolved"
	// ReasonConfigWarning: the configuration was read, and something in it is doubtful.
	ReasonConfigWarning = "ConfigWarning"
)

// Reasons of Ready.
const (
	// ReasonConfigured: all pods run and have the configuration.
	ReasonConfigured = "Configured"
	// ReasonConfigHashError: the configuration could not be read. Also a reason of
	// ConfigResolved.
	ReasonConfigHashError = "ConfigHashError"
	// ReasonConfigApplyError: the server, or another field manager, did not let the
	// workload be written to.
	ReasonConfigApplyError = "ConfigApplyError"
	// ReasonSCCBindingError is other operators'.
	ReasonSCCBindingError = "SCCBindingError"
	// ReasonSpiffeHelperConfigError is other operators'.
	ReasonSpiffeHelperConfigError = "SpiffeHelperConfigError"
	// ReasonTargetTaken: another AgentRuntime, which is older, has the same target. Also a
	// reason of ConfigConflict and RolloutComplete.
	ReasonTargetTaken = "TargetTaken"
	// ReasonOwnedByWarmPool: the Sandbox waits in a warm pool, whose members are all
	// alike. Also a reason of RolloutComplete.
	ReasonOwnedByWarmPool = "OwnedByWarmPool"
)

// Reasons of IstioMeshEnrolled.
const (
	ReasonNamespaceLabeled = "NamespaceLabeled"
	ReasonPatchFailed      = "PatchFailed"
	ReasonOptedOut         = "OptedOut"
)

// Reasons of MTLSReady.
const (
	ReasonMTLSDisabled     = "MTLSDisabled"
	ReasonSPIREAvailable   = "SPIREAvailable"
	ReasonSPIREAssumed     = "SPIREAssumed"
	ReasonSPIREUnavailable = "SPIREUnavailable"
	ReasonUnsupportedKind  = "UnsupportedKind"
	ReasonWorkloadNotFound = "WorkloadNotFound"
)

// Reasons of RolloutComplete. Those that are False are reasons of Ready too.
const (
	// ReasonRolledOut: every pod has the configuration, or there is none to have it.
	ReasonRolledOut = "RolledOut"
	// ReasonRollingOut: pods are being replaced.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutPending: pods have to be replaced, and others' are being replaced now.
	ReasonRolloutPending = "RolloutPending"
	// ReasonRolloutPaused: pods have to be replaced, and are not while the AgentRuntime,
	// or the workload, says so.
	ReasonRolloutPaused = "RolloutPaused"
	// ReasonRolloutStalled: pods are being replaced, and that takes too long.
	ReasonRolloutStalled = "RolloutStalled"
	// ReasonPodsNotReady: every pod has the configuration, and not all are ready.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonNotConfigured: the workload could not be given the configuration; Ready says
	// why.
	ReasonNotConfigured = "NotConfigured"
)

// Reasons of ConfigConflict.
const (
	// ReasonNoConflict: nobody else has a say.
	ReasonNoConflict = "NoConflict"
	// ReasonFieldConflict: another field manager has set a field to something else.
	ReasonFieldConflict = "FieldConflict"
	// ReasonStampsRemoved: something keeps removing what this controller writes.
	ReasonStampsRemoved = "StampsRemoved"
)

// Reasons of events that are no reason of a condition.
const (
	// EventSandboxRestarted: a Sandbox's pod was deleted so that the next has the configuration.
	EventSandboxRestarted = "SandboxRestarted"
	// EventReleaseAbandoned: the AgentRuntime is gone, and what it put on its workload may not be.
	EventReleaseAbandoned = "ReleaseAbandoned"
)
