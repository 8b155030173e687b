// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types of a Sandbox.
const (
	// ConditionReady is True when the pod is Ready and has an address, and the
	// Service, where one is wanted, is there.
	ConditionReady = "Ready"
	// ConditionSuspended is True when the Sandbox is suspended and its pod is gone.
	ConditionSuspended = "Suspended"
	// ConditionFinished is there, and True, only while the pod has succeeded or failed.
	ConditionFinished = "Finished"
	// ConditionPodScheduled is the pod's own, there only while a pod is.
	ConditionPodScheduled = "PodScheduled"
	// ConditionPodOutdated says whether the pod was made from an older pod
	// template. It is not added before the first difference was seen.
	ConditionPodOutdated = "PodOutdated"
)

// Reasons of the Sandbox's Ready condition.
const (
	// ReasonDependenciesReady: everything that makes the Sandbox Ready is there.
	ReasonDependenciesReady = "DependenciesReady"
	// ReasonDependenciesNotReady: something is missing; the message says what.
	ReasonDependenciesNotReady = "DependenciesNotReady"
	// ReasonReconcilerError: something went wrong; the message says what.
	ReasonReconcilerError = "ReconcilerError"
	// ReasonMultiplePods: more than one live pod is owned by the Sandbox, and
	// nothing is done until one is left. Also the reason of the event.
	ReasonMultiplePods = "MultiplePods"
	// ReasonSandboxSuspended: the Sandbox should not run.
	ReasonSandboxSuspended = "SandboxSuspended"
	// ReasonSandboxExpired: the Sandbox's shutdown time has passed.
	ReasonSandboxExpired = "SandboxExpired"
	// ReasonPodSucceeded: the pod ran to its end. Also a reason of Finished.
	ReasonPodSucceeded = "PodSucceeded"
	// ReasonPodFailed: the pod failed. Also a reason of Finished.
	ReasonPodFailed = "PodFailed"
)

// Reasons of the Sandbox's Suspended condition.
const (
	// ReasonNotSuspended: the Sandbox should run.
	ReasonNotSuspended = "NotSuspended"
	// ReasonPodStateUnknown: whether there is a pod could not be found out.
	ReasonPodStateUnknown = "PodStateUnknown"
	// ReasonPodTerminated: there is no pod any more.
	ReasonPodTerminated = "PodTerminated"
	// ReasonPodNotOwned: a pod of the Sandbox's name belongs to something else.
	ReasonPodNotOwned = "PodNotOwned"
	// ReasonPodTerminating: the pod is on its way out.
	ReasonPodTerminating = "PodTerminating"
	// ReasonPodNotTerminated is never set any more.
	//
	// Deprecated: use ReasonPodTerminating.
	ReasonPodNotTerminated = "PodNotTerminated"
)

// Reasons of the Sandbox's PodScheduled condition, for when the pod gives none.
const (
	// ReasonPodScheduled: the pod has a node.
	ReasonPodScheduled = "PodScheduled"
	// ReasonPodSchedulingUnknown: the pod does not say whether it has one.
	ReasonPodSchedulingUnknown = "PodSchedulingUnknown"
)

// Reasons of the Sandbox's PodOutdated condition.
const (
	// ReasonSpecChanged: the pod template's spec changed; only a new pod can have it.
	ReasonSpecChanged = "SpecChanged"
	// ReasonMetadataAppliedInPlace: labels or annotations changed, and were
	// changed on the running pod, whose processes may not have noticed.
	ReasonMetadataAppliedInPlace = "MetadataAppliedInPlace"
	// ReasonUpToDate: the pod is of the current pod template.
	ReasonUpToDate = "UpToDate"
)

// Messages of the Sandbox's conditions. Clients compare them.
const (
	// MessageNotSuspended goes with ReasonNotSuspended.
	MessageNotSuspended = "Sandbox is not suspended"
	// MessagePodStateUnknown goes with ReasonPodStateUnknown.
	MessagePodStateUnknown = "Pod state is unknown. Sandbox suspension cannot be confirmed"
	// MessagePodTerminated goes with ReasonPodTerminated.
	MessagePodTerminated = "Pod has been terminated. Sandbox is suspended"
	// MessagePodNotOwned goes with ReasonPodNotOwned.
	MessagePodNotOwned = "Refused to delete pod because it is not owned by this sandbox"
	// MessagePodTerminating goes with ReasonPodTerminating of Suspended.
	MessagePodTerminating = "Pod is terminating. Sandbox is suspending"

	// MessagePodSucceeded goes with ReasonPodSucceeded.
	MessagePodSucceeded = "Pod completed successfully"
	// MessagePodFailed goes with ReasonPodFailed.
	MessagePodFailed = "Pod failed"

	// MessageSchedulingNotReported goes with ReasonPodSchedulingUnknown when the pod has no such condition.
	MessageSchedulingNotReported = "Pod has not reported a PodScheduled condition yet"
	// MessageSchedulingUnknown goes with ReasonPodSchedulingUnknown when the pod is not known.
	MessageSchedulingUnknown = "Pod state is unknown. Pod scheduling cannot be determined"

	// MessageSandboxSuspending goes with ReasonSandboxSuspended while a pod is left.
	MessageSandboxSuspending = "Sandbox is suspending"
	// MessageSandboxSuspended goes with ReasonSandboxSuspended when none is.
	MessageSandboxSuspended = "Sandbox is suspended"
	// MessageSandboxExpired goes with ReasonSandboxExpired.
	MessageSandboxExpired = "Sandbox has expired"

	// MessagePodMissing goes with ReasonDependenciesNotReady.
	MessagePodMissing = "Pod does not exist"
	// MessagePodPhaseFormat goes with ReasonDependenciesNotReady; its argument is the pod's phase.
	MessagePodPhaseFormat = "Pod exists with phase: %s"
	// MessagePodNotReady goes with ReasonDependenciesNotReady.
	MessagePodNotReady = "Pod is Running but not Ready"
	// MessagePodWithoutIP goes with ReasonDependenciesNotReady.
	MessagePodWithoutIP = "Pod is Ready but has no podIPs yet"
	// MessagePodGoing goes with ReasonDependenciesNotReady while the next pod waits for the old one to go.
	MessagePodGoing = "Pod is terminating"
	// MessagePodStuckFormat goes with ReasonDependenciesNotReady when a pod stays past its
	// grace period; its argument is the node's name.
	MessagePodStuckFormat = "Pod is terminating, and its grace period is over; node %q has not said that the pod stopped"
	// MessagePodHeldFormat is MessagePodStuckFormat for a pod that something else keeps;
	// its argument is the pod's finalizers.
	MessagePodHeldFormat = "Pod is terminating, and its grace period is over; finalizers keep it: %s"
	// MessageEarlierPodGoing goes with ReasonDependenciesNotReady when the pod of an
	// earlier Sandbox of the same name is still there.
	MessageEarlierPodGoing = "Pod of an earlier Sandbox of this name is terminating"
	// MessagePodReady goes with ReasonDependenciesReady.
	MessagePodReady = "Pod is Ready"

	// MessageServiceExistsSuffix follows the pod's message when a Service is wanted and there.
	MessageServiceExistsSuffix = "; Service Exists"
	// MessageServiceMissingSuffix follows the pod's message when a Service is wanted and missing.
	MessageServiceMissingSuffix = "; Service does not exist"

	// MessagePodUpToDate goes with ReasonUpToDate.
	MessagePodUpToDate = "Pod is of the current podTemplate"
	// MessageNextPodUpToDate goes with ReasonUpToDate while there is no pod.
	MessageNextPodUpToDate = "The next Pod will be of the current podTemplate"
	// MessageSpecChangedFormat goes with ReasonSpecChanged; its argument is what differs.
	MessageSpecChangedFormat = "The running Pod differs from podTemplate in %s; it stays as it is until it is deleted"
	// MessageMetadataAppliedFormat goes with ReasonMetadataAppliedInPlace; its argument is what changed.
	MessageMetadataAppliedFormat = "%s changed on the running Pod, whose processes may not have noticed"

	// MessageMultiplePodsFormat goes with ReasonMultiplePods; its argument is the number of pods.
	MessageMultiplePodsFormat = "multiple Pods (%d) are controlled by this Sandbox; refusing to choose or create a Pod"
	// MessageErrorFormat goes with ReasonReconcilerError; its argument is the error.
	MessageErrorFormat = "Error seen: %s"
)

// Messages about objects that the Sandbox controller will not take over.
const (
	// MessagePodOtherOwnerFormat: pod, owner's kind, owner's name, owner's UID, sandbox.
	MessagePodOtherOwnerFormat = "pod %q is owned by %s/%s (UID: %s), not by sandbox %q"
	// MessageServiceOtherOwnerFormat: service, owner's kind, owner's name, owner's UID, sandbox.
	MessageServiceOtherOwnerFormat = "service %q is owned by %s/%s (UID: %s), not by sandbox %q"
	// MessagePVCOtherOwnerFormat: claim, owner's kind, owner's name, owner's UID, sandbox.
	MessagePVCOtherOwnerFormat = "PVC %q is owned by %s/%s (UID: %s), not by sandbox %q"
	// MessageCannotAdoptFormat: "pod", "service" or "PVC", and the object's name.
	MessageCannotAdoptFormat = "cannot adopt unowned %s %q: missing required pool authorization label (\"" +
		LabelAdoptable + "\") or sandbox tracking label (\"" + LabelSandboxNameHash + "\")"
	// MessageServiceClusterIPFormat: service, its cluster IP.
	MessageServiceClusterIPFormat = "cannot adopt service %q: ClusterIP is %q (expected \"None\", field is immutable)"
)
