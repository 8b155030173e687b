// SPDX-License-Identifier: Apache-2.0

package claim

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
)

// problem is something in the claim that a person has to change.
type problem struct{ reason, message string }

// render makes the Sandbox of a claim that starts cold. It has the claim's name, so
// that creating it twice is impossible.
func render(claim *extensions.SandboxClaim, template *extensions.SandboxTemplate) (*agents.Sandbox, *problem) {
	s := &agents.Sandbox{
		TypeMeta: metav1.TypeMeta{APIVersion: agents.GroupVersion.String(), Kind: agents.SandboxKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace,
			Name:      claim.Name,
			Labels: map[string]string{
				agents.LabelClaimUID:        string(claim.UID),
				agents.LabelLaunchType:      agents.LaunchTypeCold,
				agents.LabelTemplateRefHash: agents.NameHash(template.Name),
			},
			Annotations: map[string]string{
				agents.AnnotationTemplateRef: template.Name,
				agents.AnnotationPodName:     claim.Name,
			},
			OwnerReferences: []metav1.OwnerReference{ownerReference(claim)},
		},
		Spec: blueprint.Spec(template),
	}
	for key, value := range inherited(claim) {
		if value != nil {
			s.Labels[key] = value.(string)
		}
	}
	if trace := claim.Annotations[agents.AnnotationTraceContext]; trace != "" {
		s.Annotations[agents.AnnotationTraceContext] = trace
	}
	if p := addVolumeClaims(&s.Spec, claim, template); p != nil {
		return nil, p
	}
	if p := addEnv(&s.Spec.PodTemplate.Spec, claim, template); p != nil {
		return nil, p
	}
	withMetadata(claim, s)
	return s, nil
}

func ownerReference(claim *extensions.SandboxClaim) metav1.OwnerReference {
	return *metav1.NewControllerRef(claim, extensions.GroupVersion.WithKind(extensions.SandboxClaimKind))
}

// inherited are the labels a Sandbox has from its claim; nil removes one.
func inherited(claim *extensions.SandboxClaim) map[string]any {
	return map[string]any{agents.LabelCreatedBy: orNil(claim.Labels[agents.LabelCreatedBy])}
}
