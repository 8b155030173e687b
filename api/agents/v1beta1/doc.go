// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds the Sandbox API of group agents.x-k8s.io, together with
// the keys, condition strings and names that everything working with sandboxes
// has to agree on.
//
// +kubebuilder:object:generate=true
// +groupName=agents.x-k8s.io
package v1beta1
