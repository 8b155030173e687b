// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// Matches reports whether a Sandbox of a pool is what t makes today. See
// Blueprint.Matches.
func Matches(s *agents.Sandbox, t *extensions.SandboxTemplate) bool { return Of(t).Matches(s) }

// Matches reports whether a Sandbox of a pool is of this blueprint: it names the
// template, it is Intact, and its content is the blueprint's.
//
// The hash label stands for the pod template's content only while the Sandbox's
// generation is 1. Then nobody has edited the spec since its creation, and what the
// server's admission may have added to it then is no difference to replace a member
// for. Labels can be edited without a new generation, so a hash that differs proves
// nothing and the content decides.
func (b *Blueprint) Matches(s *agents.Sandbox) bool {
	if s.Annotations[agents.AnnotationTemplateRef] != b.template || !Intact(s) || !b.sameSettings(s) {
		return false
	}
	if s.Generation == 1 && b.hash != "" && s.Labels[agents.LabelTemplateHash] == b.hash {
		return true
	}
	return b.samePodTemplate(s) && equality.Semantic.DeepEqual(s.Spec.VolumeClaimTemplates, b.spec.VolumeClaimTemplates)
}

// Intact reports whether nobody gave a Sandbox of a pool a life of its own: it is
// neither suspended nor bound to end at some time. No member is made like that, and
// no claim expects it.
func Intact(s *agents.Sandbox) bool {
	return s.Running() && s.Spec.ShutdownTime == nil && s.Spec.ShutdownPolicy != agents.ShutdownPolicyDelete
}

// sameSettings compares what is cheap to compare, and all that the hash does not
// cover: the settings beside the shared fields, and the secure defaults, which
// follow the template's network policy.
func (b *Blueprint) sameSettings(s *agents.Sandbox) bool {
	is, want := &s.Spec, &b.spec
	return equalValues(is.Service, want.Service) &&
		len(is.VolumeClaimTemplates) == len(want.VolumeClaimTemplates) &&
		recreates(is) == recreates(want) &&
		(is.PodFailureAction == agents.PodFailureReplace) == (want.PodFailureAction == agents.PodFailureReplace) &&
		is.PodTemplate.Spec.DNSPolicy == want.PodTemplate.Spec.DNSPolicy &&
		equalValues(is.PodTemplate.Spec.AutomountServiceAccountToken, want.PodTemplate.Spec.AutomountServiceAccountToken)
}

func recreates(spec *agents.SandboxSpec) bool {
	return spec.UpdateStrategy != nil && spec.UpdateStrategy.Type == agents.SandboxUpdateRecreate
}

func (b *Blueprint) samePodTemplate(s *agents.Sandbox) bool {
	is, want := &s.Spec.PodTemplate, &b.spec.PodTemplate
	return maps.Equal(ownKeys(is.Metadata.Labels, nil), want.Metadata.Labels) &&
		maps.Equal(ownKeys(is.Metadata.Annotations, want.Metadata.Annotations), want.Metadata.Annotations) &&
		equality.Semantic.DeepEqual(&is.Spec, &want.Spec)
}

// ownKeys returns the keys that came from a template. Other controllers of this API
// write system keys and the autoscaler's permission to evict into the podTemplate;
// neither is the template's.
func ownKeys(given, template map[string]string) map[string]string {
	foreign := func(key, value string) bool {
		_, wanted := template[key]
		return agents.IsSystemKey(key) ||
			key == agents.AnnotationSafeToEvict && value == agents.SafeToEvictTrue && !wanted
	}
	for key, value := range given {
		if foreign(key, value) {
			own := maps.Clone(given)
			maps.DeleteFunc(own, foreign)
			return own
		}
	}
	return given
}

func equalValues[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
