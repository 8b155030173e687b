// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// addVolumeClaims adds the claim's volumeClaimTemplates to the template's, as far as
// the template's volumeClaimTemplatesPolicy allows.
func addVolumeClaims(spec *agents.SandboxSpec, claim *extensions.SandboxClaim, template *extensions.SandboxTemplate) *problem {
	if len(claim.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	bad := func(format string, args ...any) *problem {
		return &problem{extensions.ReasonVolumeClaimTemplatesError, fmt.Sprintf(format, args...)}
	}
	policy := template.Spec.VolumeClaimTemplatesPolicy
	if policy != extensions.VolumeClaimTemplatesAllowed && policy != extensions.VolumeClaimTemplatesOverrides {
		return bad("spec.volumeClaimTemplates: SandboxTemplate %q does not allow them; set its spec.volumeClaimTemplatesPolicy to Allowed or Overrides, "+
			"or remove them from the claim", template.Name)
	}
	if name := invalidNames(spec.VolumeClaimTemplates); name != nil {
		return bad("SandboxTemplate %q: spec.volumeClaimTemplates: the name %q is empty or there twice", template.Name, *name)
	}
	if name := invalidNames(claim.Spec.VolumeClaimTemplates); name != nil {
		return bad("spec.volumeClaimTemplates: the name %q is empty or there twice", *name)
	}
	for _, added := range claim.Spec.VolumeClaimTemplates {
		at := slices.IndexFunc(spec.VolumeClaimTemplates, func(t agents.PersistentVolumeClaimTemplate) bool {
			return t.Metadata.Name == added.Metadata.Name
		})
		switch {
		case at < 0:
			spec.VolumeClaimTemplates = append(spec.VolumeClaimTemplates, *added.DeepCopy())
		case policy == extensions.VolumeClaimTemplatesOverrides:
			spec.VolumeClaimTemplates[at] = *added.DeepCopy()
		default:
			return bad("spec.volumeClaimTemplates: SandboxTemplate %q has one named %q already and does not allow overriding it; use another name",
				template.Name, added.Metadata.Name)
		}
	}
	return nil
}

// invalidNames returns the first name that is empty or there twice, or nil.
func invalidNames(templates []agents.PersistentVolumeClaimTemplate) *string {
	seen := map[string]bool{}
	for _, t := range templates {
		if name := t.Metadata.Name; name == "" || seen[name] {
			return &name
		}
		seen[t.Metadata.Name] = true
	}
	return nil
}

// addEnv adds the claim's environment variables, as far as the template's
// envVarsInjectionPolicy allows.
func addEnv(pod *corev1.PodSpec, claim *extensions.SandboxClaim, template *extensions.SandboxTemplate) *problem {
	if len(claim.Spec.Env) == 0 {
		return nil
	}
	bad := func(format string, args ...any) *problem {
		return &problem{extensions.ReasonEnvVarsInjectionRejected, fmt.Sprintf(format, args...)}
	}
	policy := template.Spec.EnvVarsInjectionPolicy
	if policy != extensions.EnvVarsInjectionAllowed && policy != extensions.EnvVarsInjectionOverrides {
		return bad("spec.env: SandboxTemplate %q does not allow it; set its spec.envVarsInjectionPolicy to Allowed or Overrides, or remove env from the claim", template.Name)
	}
	for _, added := range claim.Spec.Env {
		container := containerNamed(pod, added.ContainerName)
		if container == nil {
			return bad("spec.env: variable %q names container %q, which SandboxTemplate %q does not have", added.Name, added.ContainerName, template.Name)
		}
		if policy == extensions.EnvVarsInjectionAllowed && len(container.EnvFrom) > 0 {
			return bad("spec.env: container %q has envFrom, whose variables could be overridden, and SandboxTemplate %q does not allow that; "+
				"it needs envVarsInjectionPolicy Overrides", container.Name, template.Name)
		}
		variable := corev1.EnvVar{Name: added.Name, Value: added.Value}
		at := slices.IndexFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == added.Name })
		switch {
		case at < 0:
			container.Env = append(container.Env, variable)
		case policy == extensions.EnvVarsInjectionOverrides:
			container.Env[at] = variable
		case container.Env[at].ValueFrom == nil && container.Env[at].Value == added.Value:
		default:
			return bad("spec.env: container %q has a variable %q already and SandboxTemplate %q does not allow overriding it; "+
				"it needs envVarsInjectionPolicy Overrides", container.Name, added.Name, template.Name)
		}
	}
	return nil
}

// containerNamed returns the named container, init or regular; the first regular one
// if the name is empty.
func containerNamed(pod *corev1.PodSpec, name string) *corev1.Container {
	if name == "" && len(pod.Containers) > 0 {
		return &pod.Containers[0]
	}
	for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
