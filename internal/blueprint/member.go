// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// Member renders the Sandbox of the given name that pool makes from t. See
// Blueprint.Member.
func Member(pool *extensions.SandboxWarmPool, t *extensions.SandboxTemplate, name string) *agents.Sandbox {
	return Of(t).Member(pool, name)
}

// Member renders a Sandbox of a pool. Its labels are for finding it and for outside
// readers; that it is a member is said by its controller reference alone. None of
// them goes into the podTemplate.
func (b *Blueprint) Member(pool *extensions.SandboxWarmPool, name string) *agents.Sandbox {
	return &agents.Sandbox{
		TypeMeta: metav1.TypeMeta{APIVersion: agents.GroupVersion.String(), Kind: "Sandbox"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   pool.Namespace,
			Name:        name,
			Labels:      b.MemberLabels(pool.Name),
			Annotations: b.memberAnnotations(name),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(pool, extensions.GroupVersion.WithKind("SandboxWarmPool")),
			},
		},
		Spec: b.Spec(),
	}
}

// MemberLabels returns the labels of a Sandbox made for the named pool.
func (b *Blueprint) MemberLabels(pool string) map[string]string {
	return map[string]string{
		agents.LabelWarmPool:        agents.NameHash(pool),
		agents.LabelTemplateRefHash: agents.NameHash(b.template),
		agents.LabelTemplateHash:    b.hash,
		agents.LabelPodTemplateHash: b.podTemplateHash,
		agents.LabelLaunchType:      agents.LaunchTypeWarm,
		agents.LabelCreatedBy:       agents.CreatedByController,
	}
}

// memberAnnotations name the pod before there is one: it has the Sandbox's name, and
// a claim that binds the Sandbox then needs no further write.
func (b *Blueprint) memberAnnotations(name string) map[string]string {
	return map[string]string{
		agents.AnnotationTemplateRef: b.template,
		agents.AnnotationTemplateUID: b.uid,
		agents.AnnotationPodName:     name,
	}
}

// PoolLabels are the labels a Sandbox loses when a claim adopts it.
func PoolLabels() []string {
	return []string{agents.LabelWarmPool, agents.LabelTemplateHash, agents.LabelPodTemplateHash}
}
