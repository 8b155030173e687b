// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds SandboxTemplate, SandboxWarmPool and SandboxClaim of
// group extensions.agents.x-k8s.io, and their condition strings. Keys and names
// are in the Sandbox's package.
//
// +kubebuilder:object:generate=true
// +groupName=extensions.agents.x-k8s.io
package v1beta1
