// SPDX-License-Identifier: Apache-2.0

package v1beta1

import corev1 "k8s.io/api/core/v1"

// SandboxBlueprint is what a Sandbox is made of. A SandboxTemplate carries the
// same fields, and a Sandbox made from it starts with a copy of them.
//
// The order of the fields is the order of their JSON, which the hashes that
// outside tools read are computed over.
type SandboxBlueprint struct {
	// PodTemplate describes the pod that backs the Sandbox.
	// +required
	PodTemplate PodTemplate `json:"podTemplate"`

	// VolumeClaimTemplates are the volumes that live as long as the Sandbox,
	// whatever happens to its pod. The claim made from one is named
	// "<template name>-<sandbox name>". They cannot change after creation of
	// a Sandbox.
	// +optional
	// +listType=atomic
	VolumeClaimTemplates []PersistentVolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`

	// Service says whether the Sandbox has a headless Service of its name.
	// Unset is a third state: none is made, and one that is there and owned by
	// the Sandbox is kept.
	// +optional
	Service *bool `json:"service,omitempty"`
}

// PodTemplate describes a pod: its spec, and the labels and annotations that
// are put on it.
type PodTemplate struct {
	// Spec is the pod's spec.
	// +required
	Spec corev1.PodSpec `json:"spec"`

	// Metadata holds the pod's labels and annotations.
	// +optional
	Metadata PodMetadata `json:"metadata,omitempty"`
}

// PodMetadata is the part of a pod's metadata that a template may set.
type PodMetadata struct {
	// Labels are put on the pod. Keys under the system prefixes are not.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations are put on the pod. Keys under the system prefixes are not.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// PersistentVolumeClaimTemplate describes a PersistentVolumeClaim.
type PersistentVolumeClaimTemplate struct {
	// Metadata names the template, and holds the claim's labels and annotations.
	// +optional
	Metadata EmbeddedObjectMetadata `json:"metadata,omitempty"`

	// Spec is the claim's spec.
	// +required
	Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
}

// EmbeddedObjectMetadata is the part of an embedded object's metadata that
// can be set.
type EmbeddedObjectMetadata struct {
	// Name is the name of the object within the list it stands in.
	// +optional
	Name string `json:"name,omitempty"`

	// Labels are put on the object.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations are put on the object.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
