// SPDX-License-Identifier: Apache-2.0

package v1beta1

import "strings"

// Labels.
const (
	// LabelSandboxNameHash holds NameHash of the Sandbox's name, on its pod,
	// Service (and the Service's selector) and PersistentVolumeClaims. It is an
	// index, never proof of ownership.
	LabelSandboxNameHash = "agents.x-k8s.io/sandbox-name-hash"

	// LabelSandboxUID holds the Sandbox's UID, on its pod and in its Service's
	// selector: the name hash has 32 bits, and two names of one namespace can share it.
	LabelSandboxUID = "agents.x-k8s.io/sandbox-uid"

	// LabelWarmPool holds NameHash of the pool's name, on Sandboxes that are
	// members of a SandboxWarmPool and on their pods. It goes at adoption.
	LabelWarmPool = "agents.x-k8s.io/warm-pool-sandbox"

	// LabelTemplateRefHash holds NameHash of the template's name, on the
	// template, on Sandboxes made from it and their pods, and in the managed
	// NetworkPolicy's pod selector. It stays after adoption.
	LabelTemplateRefHash = "agents.x-k8s.io/sandbox-template-ref-hash"

	// LabelTemplateHash holds the hash of the template's blueprint a pool
	// member was made from. It goes at adoption.
	LabelTemplateHash = "agents.x-k8s.io/sandbox-template-hash"

	// LabelPodTemplateHash holds the hash of the template's podTemplate a pool
	// member was made from. Written for outside readers only; it goes at adoption.
	LabelPodTemplateHash = "agents.x-k8s.io/sandbox-pod-template-hash"

	// LabelLaunchType says how a Sandbox came to its claim: LaunchTypeWarm or LaunchTypeCold.
	LabelLaunchType = "agents.x-k8s.io/launch-type"

	// LabelCreatedBy says what made the claim or Sandbox; see NormalizeCreatedBy
	// for what reaches a pod.
	LabelCreatedBy = "agents.x-k8s.io/created-by"

	// LabelClaimUID holds the claim's UID, on Sandboxes owned by a claim and on their pods.
	LabelClaimUID = "agents.x-k8s.io/claim-uid"

	// LabelAdoptable with value AdoptableTrue, set by a user on an unowned pod,
	// Service or PersistentVolumeClaim, lets the Sandbox of the right name take it over.
	LabelAdoptable = "agents.x-k8s.io/adoptable"

	// LabelApp with value AppSandboxRouter marks the router's pods, the only
	// ones that the default NetworkPolicy lets in. Claims may not set it.
	LabelApp = "app"
)

// Values of labels.
const (
	// LaunchTypeWarm marks Sandboxes that were, or wait to be, adopted from a pool.
	LaunchTypeWarm = "warm"
	// LaunchTypeCold marks Sandboxes that were created for their claim.
	LaunchTypeCold = "cold"

	// CreatedByGoClient marks what the Go client library made.
	CreatedByGoClient = "go-client"
	// CreatedByPythonClient marks what the Python client library made.
	CreatedByPythonClient = "python-client"
	// CreatedByController marks pool members.
	CreatedByController = "controller"
	// CreatedByUnknown stands on pods for any other value.
	CreatedByUnknown = "unknown"

	// AdoptableTrue is the value of LabelAdoptable that counts.
	AdoptableTrue = "true"

	// AppSandboxRouter is the value of LabelApp on the router's pods.
	AppSandboxRouter = "sandbox-router"
)

// Annotations.
const (
	// AnnotationPodName holds the name of the backing pod, on a Sandbox. It is
	// an output for clients: nothing is decided from it, and it is never cleared.
	AnnotationPodName = "agents.x-k8s.io/pod-name"

	// AnnotationTemplateRevision holds the revision of the pod template that a
	// pod was created from, on the pod.
	AnnotationTemplateRevision = "agents.x-k8s.io/template-revision"

	// AnnotationTemplateRef holds the name of the template a Sandbox was made from.
	AnnotationTemplateRef = "agents.x-k8s.io/sandbox-template-ref"

	// AnnotationTemplateUID holds the UID of the template that a managed
	// NetworkPolicy belongs to, on the NetworkPolicy, which has no owner reference.
	AnnotationTemplateUID = "agents.x-k8s.io/sandbox-template-uid"

	// AnnotationPropagatedLabels lists the template's label keys that were put
	// on a pod, sorted and joined by commas, so that they can be taken off again.
	AnnotationPropagatedLabels = "agents.x-k8s.io/propagated-labels"

	// AnnotationPropagatedAnnotations is AnnotationPropagatedLabels for annotations.
	AnnotationPropagatedAnnotations = "agents.x-k8s.io/propagated-annotations"

	// AnnotationClaimMetadata holds what a claim's additionalPodMetadata last
	// put into its Sandbox's podTemplate, as JSON, on the Sandbox.
	AnnotationClaimMetadata = "agents.x-k8s.io/claim-metadata"

	// AnnotationSandboxName holds the name of the assigned Sandbox, on a claim.
	// Older claims carry it as a label. It is read from nothing and decides nothing.
	AnnotationSandboxName = "agents.x-k8s.io/sandbox-name"

	// AnnotationControllerFirstObservedAt holds when the controller first saw a
	// claim, as RFC 3339 with nanoseconds.
	AnnotationControllerFirstObservedAt = "agents.x-k8s.io/controller-first-observed-at"

	// AnnotationClaimFirstReadyAt holds when a claim first was Ready, as RFC
	// 3339 with nanoseconds in UTC, or FirstReadyUnknown.
	AnnotationClaimFirstReadyAt = "agents.x-k8s.io/claim-first-ready-at"

	// FirstReadyUnknown is the value of AnnotationClaimFirstReadyAt on claims
	// that were Ready before anybody took the time.
	FirstReadyUnknown = "unknown"

	// AnnotationClientFirstRequestedAt holds when a client asked for a claim,
	// as RFC 3339. Client libraries set it.
	AnnotationClientFirstRequestedAt = "agents.x-k8s.io/client-first-requested-at"

	// AnnotationWebhookFirstObservedAt holds when an admission webhook saw a
	// claim. Whoever runs such a webhook sets it.
	AnnotationWebhookFirstObservedAt = "agents.x-k8s.io/webhook-first-observed-at"

	// AnnotationTraceContext holds W3C trace context headers as a JSON object,
	// on claims and Sandboxes. It is never copied to pods.
	AnnotationTraceContext = "opentelemetry.io/trace-context"

	// AnnotationSafeToEvict tells the cluster autoscaler whether it may evict a
	// pod. Pods of pool members get SafeToEvictTrue unless their template says otherwise.
	AnnotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

	// SafeToEvictTrue is the value of AnnotationSafeToEvict on pool members' pods.
	SafeToEvictTrue = "true"
)

// FieldOwner is the field manager of the Sandbox controller's creates.
const FieldOwner = "sandbox-controller"

// RouterNamespace is where the router runs that the default NetworkPolicy lets in.
const RouterNamespace = "agent-sandbox-system"

// MaxNameLength is the longest name a Sandbox or SandboxClaim may have: the
// Sandbox's Service and its pod's host name are named after it.
const MaxNameLength = 63

// IsSystemKey says whether a label or annotation key is under one of the
// system's prefixes. Such keys in a pod template never reach the pod.
func IsSystemKey(key string) bool {
	return strings.HasPrefix(key, "agents.x-k8s.io/") || strings.HasPrefix(key, "extensions.agents.x-k8s.io/")
}

// NormalizeCreatedBy gives the value of LabelCreatedBy for a pod: known values
// as they are, others CreatedByUnknown, so that the label's values stay few.
// It gives "" for "", which means no label.
func NormalizeCreatedBy(value string) string {
	switch value {
	case "", CreatedByGoClient, CreatedByPythonClient, CreatedByController:
		return value
	default:
		return CreatedByUnknown
	}
}

// PersistentVolumeClaimName is the name of the claim made for a Sandbox from
// one of its volumeClaimTemplates.
func PersistentVolumeClaimName(template, sandbox string) string {
	return template + "-" + sandbox
}
