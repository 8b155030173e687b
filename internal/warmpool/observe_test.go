// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/kinds"
)

func TestAMemberHasAPoolAsItsController(t *testing.T) {
	by := func(apiVersion, kind string) func(*agents.Sandbox) {
		return func(s *agents.Sandbox) { s.OwnerReferences[0].APIVersion, s.OwnerReferences[0].Kind = apiVersion, kind }
	}
	cases := map[string]struct {
		edit            func(*agents.Sandbox)
		indexed, member bool
	}{
		"made by the pool":                   {func(*agents.Sandbox) {}, true, true},
		"made at an older version":           {by("extensions.agents.x-k8s.io/v1alpha1", "SandboxWarmPool"), true, true},
		"of a claim with the pool's UID":     {by("extensions.agents.x-k8s.io/v1beta1", "SandboxClaim"), true, false},
		"of a ConfigMap with the pool's UID": {by("v1", "ConfigMap"), false, false},
		"of another group's pool":            {by("example.com/v1", "SandboxWarmPool"), false, false},
		"owned but not controlled":           {func(s *agents.Sandbox) { s.OwnerReferences[0].Controller = nil }, false, false},
		"of nobody":                          {func(s *agents.Sandbox) { s.OwnerReferences = []metav1.OwnerReference{} }, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := member("x", "new", 0, c.edit)
			if got := len(kinds.Sandboxes().Indexes[kinds.ByController](s)) > 0; got != c.indexed {
				t.Errorf("found by its controller: %t", got)
			}
			other := member("y", "new", 0)
			if got := len(membersAmong([]*agents.Sandbox{s, other})) == 2; got != c.member {
				t.Errorf("is a member: %t", got)
			}
		})
	}
}
