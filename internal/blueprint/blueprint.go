// SPDX-License-Identifier: Apache-2.0

// Package blueprint turns a SandboxTemplate into Sandboxes, and tells whether a
// Sandbox is what its template makes today. It is pure.
//
// The blueprint of a template is everything that a Sandbox made from it carries: the
// pod's spec and metadata, volumes, Service, and what is done about updates and
// failed pods. A pod with yesterday's labels or annotations is of yesterday's
// blueprint.
package blueprint

import (
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// Blueprint is what one version of a template makes. Make it once where many
// Sandboxes are looked at: it renders and hashes the template.
type Blueprint struct {
	template        string
	uid             string
	spec            agents.SandboxSpec
	hash            string
	podTemplateHash string
}

// Of returns the blueprint of a template.
func Of(t *extensions.SandboxTemplate) *Blueprint {
	return &Blueprint{
		template:        t.Name,
		uid:             string(t.UID),
		spec:            Spec(t),
		hash:            Hash(t),
		podTemplateHash: PodTemplateHash(t),
	}
}

// Spec returns the spec of a Sandbox made from t: a copy of its blueprint with the
// secure defaults. Pods get no service account token unless the template says
// otherwise. Where the default NetworkPolicy is in force, which keeps pods from the
// cluster's DNS, they ask public name servers.
func Spec(t *extensions.SandboxTemplate) agents.SandboxSpec {
	spec := agents.SandboxSpec{
		SandboxBlueprint: *t.Spec.SandboxBlueprint.DeepCopy(),
		UpdateStrategy:   t.Spec.UpdateStrategy.DeepCopy(),
		PodFailureAction: t.Spec.PodFailureAction,
	}
	metadata := &spec.PodTemplate.Metadata
	maps.DeleteFunc(metadata.Labels, isSystem)
	maps.DeleteFunc(metadata.Annotations, isSystem)
	pod := &spec.PodTemplate.Spec
	if pod.AutomountServiceAccountToken == nil {
		pod.AutomountServiceAccountToken = ptr.To(false)
	}
	if t.NetworkPolicyManaged() && t.Spec.NetworkPolicy == nil && pod.DNSPolicy == "" {
		pod.DNSPolicy = corev1.DNSNone
		pod.DNSConfig = publicDNS(pod.DNSConfig)
	}
	return spec
}

// publicDNS adds public name servers to the template's own DNS settings, if it has
// any.
func publicDNS(own *corev1.PodDNSConfig) *corev1.PodDNSConfig {
	config := own.DeepCopy()
	if config == nil {
		config = &corev1.PodDNSConfig{}
	}
	if len(config.Nameservers) == 0 {
		config.Nameservers = []string{"8.8.8.8", "1.1.1.1"}
	}
	return config
}

func isSystem(key, _ string) bool { return agents.IsSystemKey(key) }

// Hash returns the value of agents.LabelTemplateHash for Sandboxes made from t. It
// covers the fields that a template shares with a Sandbox; what it does not cover,
// Matches compares.
func Hash(t *extensions.SandboxTemplate) string { return hashJSON(&t.Spec.SandboxBlueprint) }

// PodTemplateHash returns the value of agents.LabelPodTemplateHash, which only
// outside readers look at.
func PodTemplateHash(t *extensions.SandboxTemplate) string { return hashJSON(&t.Spec.PodTemplate) }

func hashJSON(part any) string {
	text, err := json.Marshal(part)
	if err != nil {
		// Types of the API always have a JSON form. An empty hash matches nothing.
		return ""
	}
	return agents.NameHash(string(text))
}

// Spec returns a copy of the spec of Sandboxes made from the blueprint.
func (b *Blueprint) Spec() agents.SandboxSpec { return *b.spec.DeepCopy() }

// Hash returns the value of agents.LabelTemplateHash.
func (b *Blueprint) Hash() string { return b.hash }
