// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

func TestVariablesGoWhereTheTemplateLetsThem(t *testing.T) {
	const main, other, setup = "main", "other", "setup"
	plain := func() *corev1.PodSpec {
		return &corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: setup}},
			Containers:     []corev1.Container{{Name: main, Env: []corev1.EnvVar{{Name: "MODE", Value: "batch"}}}, {Name: other}},
		}
	}
	withEnvFrom := func() *corev1.PodSpec {
		pod := plain()
		pod.Containers[0].EnvFrom = []corev1.EnvFromSource{{}}
		return pod
	}
	referring := func() *corev1.PodSpec {
		pod := plain()
		pod.Containers[0].Env[0] = corev1.EnvVar{Name: "MODE", ValueFrom: &corev1.EnvVarSource{}}
		return pod
	}
	allowed, overrides := extensions.EnvVarsInjectionAllowed, extensions.EnvVarsInjectionOverrides
	for name, c := range map[string]struct {
		pod    func() *corev1.PodSpec
		policy extensions.EnvVarsInjectionPolicy
		add    extensions.EnvVar
		where  string // the container that has the variable afterwards
		is     corev1.EnvVar
		says   string // what is wrong
	}{
		"the first container, if none is named":     {plain, allowed, extensions.EnvVar{Name: "A", Value: "1"}, main, corev1.EnvVar{Name: "A", Value: "1"}, ""},
		"a named container":                         {plain, allowed, extensions.EnvVar{Name: "A", Value: "1", ContainerName: other}, other, corev1.EnvVar{Name: "A", Value: "1"}, ""},
		"a named init container":                    {plain, allowed, extensions.EnvVar{Name: "A", Value: "1", ContainerName: setup}, setup, corev1.EnvVar{Name: "A", Value: "1"}, ""},
		"the value that is there already":           {plain, allowed, extensions.EnvVar{Name: "MODE", Value: "batch"}, main, corev1.EnvVar{Name: "MODE", Value: "batch"}, ""},
		"over another value":                        {plain, overrides, extensions.EnvVar{Name: "MODE", Value: "live"}, main, corev1.EnvVar{Name: "MODE", Value: "live"}, ""},
		"over a reference, as a whole":              {referring, overrides, extensions.EnvVar{Name: "MODE", Value: "live"}, main, corev1.EnvVar{Name: "MODE", Value: "live"}, ""},
		"beside envFrom, if they may override":      {withEnvFrom, overrides, extensions.EnvVar{Name: "A", Value: "1"}, main, corev1.EnvVar{Name: "A", Value: "1"}, ""},
		"not without a policy":                      {plain, "", extensions.EnvVar{Name: "A"}, "", corev1.EnvVar{}, "does not allow it"},
		"not against the policy":                    {plain, extensions.EnvVarsInjectionDisallowed, extensions.EnvVar{Name: "A"}, "", corev1.EnvVar{}, "does not allow it"},
		"not into a container that is not there":    {plain, overrides, extensions.EnvVar{Name: "A", ContainerName: "none"}, "", corev1.EnvVar{}, `names container "none"`},
		"not over another value unless they may":    {plain, allowed, extensions.EnvVar{Name: "MODE", Value: "live"}, "", corev1.EnvVar{}, `has a variable "MODE" already`},
		"not over a reference unless they may":      {referring, allowed, extensions.EnvVar{Name: "MODE"}, "", corev1.EnvVar{}, `has a variable "MODE" already`},
		"not beside envFrom, which could be hidden": {withEnvFrom, allowed, extensions.EnvVar{Name: "A"}, "", corev1.EnvVar{}, "has envFrom"},
	} {
		t.Run(name, func(t *testing.T) {
			template, pod := newTemplate(), c.pod()
			template.Spec.EnvVarsInjectionPolicy = c.policy
			claim := newClaim(func(claim *extensions.SandboxClaim) { claim.Spec.Env = []extensions.EnvVar{c.add} })
			p := addEnv(pod, claim, template)
			if c.says != "" {
				if p == nil || p.reason != extensions.ReasonEnvVarsInjectionRejected || !strings.Contains(p.message, c.says) {
					t.Errorf("got %+v", p)
				}
				return
			}
			if p != nil {
				t.Fatalf("refused: %s", p.message)
			}
			if env := containerNamed(pod, c.where).Env; !slices.Contains(env, c.is) ||
				slices.ContainsFunc(env, func(v corev1.EnvVar) bool { return v.Name == c.is.Name && v != c.is }) {
				t.Errorf("container %s has %v", c.where, env)
			}
		})
	}
}

func TestVolumeClaimsGoWhereTheTemplateLetsThem(t *testing.T) {
	volumes := func(names ...string) []agents.PersistentVolumeClaimTemplate {
		var all []agents.PersistentVolumeClaimTemplate
		for i, name := range names {
			one := agents.PersistentVolumeClaimTemplate{Metadata: agents.EmbeddedObjectMetadata{Name: name}}
			one.Spec.VolumeName = fmt.Sprintf("%d%d", len(names), i) // tells the claim's from the template's
			all = append(all, one)
		}
		return all
	}
	allowed, overrides := extensions.VolumeClaimTemplatesAllowed, extensions.VolumeClaimTemplatesOverrides
	for name, c := range map[string]struct {
		template []agents.PersistentVolumeClaimTemplate
		policy   extensions.VolumeClaimTemplatesPolicy
		claim    []agents.PersistentVolumeClaimTemplate
		want     string // names, and after a colon what tells them apart
		says     string
	}{
		"behind the template's":           {volumes("work"), allowed, volumes("a", "b"), "work:10 a:20 b:21", ""},
		"in place of one of that name":    {volumes("work", "rest"), overrides, volumes("new", "more", "work"), "work:32 rest:21 new:30 more:31", ""},
		"not without a policy":            {volumes("work"), "", volumes("a"), "", "does not allow them"},
		"not against the policy":          {volumes("work"), extensions.VolumeClaimTemplatesDisallowed, volumes("a"), "", "does not allow them"},
		"not in place unless they may":    {volumes("work"), allowed, volumes("work"), "", `has one named "work" already`},
		"not without a name":              {volumes("work"), overrides, volumes(""), "", `the name "" is empty or there twice`},
		"not twice under one name":        {volumes("work"), overrides, volumes("a", "a"), "", `the name "a" is empty or there twice`},
		"not if the template's are wrong": {volumes("work", "work"), overrides, volumes("a"), "", `SandboxTemplate "python": spec.volumeClaimTemplates: the name "work"`},
	} {
		t.Run(name, func(t *testing.T) {
			template := newTemplate()
			template.Spec.VolumeClaimTemplatesPolicy = c.policy
			spec := agents.SandboxSpec{SandboxBlueprint: agents.SandboxBlueprint{VolumeClaimTemplates: c.template}}
			claim := newClaim(func(claim *extensions.SandboxClaim) { claim.Spec.VolumeClaimTemplates = c.claim })
			p := addVolumeClaims(&spec, claim, template)
			if c.says != "" {
				if p == nil || p.reason != extensions.ReasonVolumeClaimTemplatesError || !strings.Contains(p.message, c.says) {
					t.Errorf("got %+v", p)
				}
				return
			}
			if p != nil {
				t.Fatalf("refused: %s", p.message)
			}
			var got []string
			for _, one := range spec.VolumeClaimTemplates {
				got = append(got, one.Metadata.Name+":"+one.Spec.VolumeName)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}

func TestASandboxThatIsMadeForItsClaim(t *testing.T) {
	template := newTemplate()
	claim := newClaim(func(c *extensions.SandboxClaim) {
		c.Labels = map[string]string{agents.LabelCreatedBy: "somebody"}
		c.Annotations = map[string]string{agents.AnnotationTraceContext: "{}", "note": "not for the Sandbox"}
		c.Spec.AdditionalPodMetadata.Labels = map[string]string{"sandbox.users.io/team": "red"}
	})
	s, p := render(claim, template)
	if p != nil {
		t.Fatal(p.message)
	}
	if s.Name != claim.Name || !control.IsControlledBy(s, claim.UID) || !*s.OwnerReferences[0].BlockOwnerDeletion {
		t.Errorf("it is called %s and belongs to %v", s.Name, s.OwnerReferences)
	}
	if diff := cmp.Diff(map[string]string{
		agents.LabelClaimUID: "claim-uid", agents.LabelLaunchType: "cold", agents.LabelCreatedBy: "somebody",
		agents.LabelTemplateRefHash: agents.NameHash("python"),
	}, s.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{
		agents.AnnotationTemplateRef: "python", agents.AnnotationPodName: "task", agents.AnnotationTraceContext: "{}",
		agents.AnnotationClaimMetadata: `{"labels":{"sandbox.users.io/team":"red"}}`,
	}, s.Annotations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"sandbox.users.io/team": "red"}, s.Spec.PodTemplate.Metadata.Labels); diff != "" {
		t.Error(diff)
	}
}
