// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the AgentRuntime API of group agent.rossoctl.dev, together with
// the keys, condition strings and names that everything configuring agent workloads has
// to agree on.
//
// +kubebuilder:object:generate=true
// +groupName=agent.rossoctl.dev
package v1alpha1
