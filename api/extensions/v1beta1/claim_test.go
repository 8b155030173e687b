// SPDX-License-Identifier: Apache-2.0

package v1beta1

import "testing"

func TestWhereAClaimTakesItsSandboxFrom(t *testing.T) {
	pool, template := &SandboxWarmPoolRef{Name: "p"}, &SandboxTemplateRef{Name: "t"}
	choice := func(s string) *string { return &s }
	for _, test := range []struct {
		name         string
		spec         SandboxClaimSpec
		poolName     string
		templateName string
		anyPool      bool
	}{
		{"a pool", SandboxClaimSpec{WarmPoolRef: pool}, "p", "", false},
		{"a template takes from any of its pools", SandboxClaimSpec{TemplateRef: template}, "", "t", true},
		{"a template, said outright", SandboxClaimSpec{TemplateRef: template, WarmPool: choice("default")}, "", "t", true},
		{"a template, with an empty choice", SandboxClaimSpec{TemplateRef: template, WarmPool: choice("")}, "", "t", true},
		{"a template and no pool", SandboxClaimSpec{TemplateRef: template, WarmPool: choice("none")}, "", "t", false},
		{"a template and a pool", SandboxClaimSpec{TemplateRef: template, WarmPool: choice("q")}, "q", "t", false},
		{"warmPoolRef wins", SandboxClaimSpec{WarmPoolRef: pool, TemplateRef: template, WarmPool: choice("q")}, "p", "", false},
		{"warmPoolRef wins over none", SandboxClaimSpec{WarmPoolRef: pool, TemplateRef: template, WarmPool: choice("none")}, "p", "", false},
		{"an empty warmPoolRef does not count", SandboxClaimSpec{WarmPoolRef: &SandboxWarmPoolRef{}, TemplateRef: template}, "", "t", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			claim := &SandboxClaim{Spec: test.spec}
			if got := claim.PoolName(); got != test.poolName {
				t.Errorf("PoolName() = %q, want %q", got, test.poolName)
			}
			if got := claim.TemplateName(); got != test.templateName {
				t.Errorf("TemplateName() = %q, want %q", got, test.templateName)
			}
			if got := claim.AnyPool(); got != test.anyPool {
				t.Errorf("AnyPool() = %v, want %v", got, test.anyPool)
			}
		})
	}
}
