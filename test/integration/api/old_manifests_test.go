// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestManifestsOfTheOldVersionMeanWhatTheyMeant(t *testing.T) {
	s := newSpace(t)
	for _, test := range []struct {
		name, spec          string
		pool, template      string
		anyPool             bool
		warmpool, inBetaRef string
	}{
		{"the template only", `{sandboxTemplateRef: {name: t}}`, "", "t", true, "default", "t"},
		{"any pool", `{sandboxTemplateRef: {name: t}, warmpool: default}`, "", "t", true, "default", "t"},
		{"no pool", `{sandboxTemplateRef: {name: t}, warmpool: none}`, "", "t", false, "none", "t"},
		{"one pool", `{sandboxTemplateRef: {name: t}, warmpool: p}`, "p", "t", false, "p", "t"},
		{"the new field at the old version", `{warmPoolRef: {name: p}}`, "p", "", false, "default", ""},
		{"both, of which the new one wins", `{warmPoolRef: {name: p}, sandboxTemplateRef: {name: t}, warmpool: q}`, "p", "", false, "q", "t"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.create("SandboxClaim", "v1alpha1", dns(test.name), test.spec)
			read := s.get("SandboxClaim", "v1beta1", dns(test.name))
			if at(read, "spec.warmpool") != test.warmpool || at(read, "spec.sandboxTemplateRef.name") != test.inBetaRef {
				t.Errorf("at v1beta1 it reads %s", at(read, "spec"))
			}
			claim := &extensions.SandboxClaim{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, claim); err != nil {
				t.Fatal(err)
			}
			if claim.PoolName() != test.pool || claim.TemplateName() != test.template || claim.AnyPool() != test.anyPool {
				t.Errorf("pool %q, template %q, any pool %v", claim.PoolName(), claim.TemplateName(), claim.AnyPool())
			}
		})
	}
}

// Defaults of a version are filled in when an object is written at it, and
// never when one is read.
func TestReadingAtTheOldVersionAddsNothing(t *testing.T) {
	s := newSpace(t)
	s.create("SandboxClaim", "v1beta1", "c", `{warmPoolRef: {name: p}}`)
	if got := at(s.get("SandboxClaim", "v1alpha1", "c"), "spec"); got != `{"warmPoolRef":{"name":"p"}}` {
		t.Errorf("at v1alpha1 the claim reads %s", got)
	}
	s.create("SandboxTemplate", "v1beta1", "t", `{volumeClaimTemplatesPolicy: Allowed, podTemplate: `+pod+`}`)
	s.patch("SandboxTemplate", "v1alpha1", "t", `{metadata: {labels: {edited: "yes"}}}`)
	if got := at(s.get("SandboxTemplate", "v1beta1", "t"), "spec.volumeClaimTemplatesPolicy"); got != "Allowed" {
		t.Errorf("after a patch at v1alpha1 the policy is %s", got)
	}
}

// A typed client writes its own reference even when the object has none, and
// drops the one it does not know. A write at v1alpha1 fills in warmpool, which
// does not count beside warmPoolRef, and is what its absence means otherwise.
func TestAPutByAClientThatKnowsTheOtherReferenceKeepsAClaimsOwn(t *testing.T) {
	s := newSpace(t)
	for _, test := range []struct{ name, created, spec, version, sent, want string }{
		{"a pool's claim saved at v1alpha1", "v1beta1", `{warmPoolRef: {name: p}}`,
			"v1alpha1", `{sandboxTemplateRef: {name: ""}}`, `{"warmPoolRef":{"name":"p"},"warmpool":"default"}`},
		{"a template's claim saved at v1beta1", "v1alpha1", `{sandboxTemplateRef: {name: t}, warmpool: q}`,
			"v1beta1", `{warmPoolRef: {name: ""}}`, `{"sandboxTemplateRef":{"name":"t"},"warmpool":"q"}`},
		{"a claim with both saved at v1alpha1", "v1beta1", `{warmPoolRef: {name: p}, sandboxTemplateRef: {name: t}}`,
			"v1alpha1", `{sandboxTemplateRef: {name: ""}}`, `{"sandboxTemplateRef":{"name":"t"},"warmPoolRef":{"name":"p"},"warmpool":"default"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.t = t
			seen := s.create("SandboxClaim", test.created, dns(test.name), test.spec)
			sent := object("SandboxClaim", test.version, dns(test.name), test.sent)
			sent.SetResourceVersion(seen.GetResourceVersion())
			saved, err := s.resource("SandboxClaim", test.version).Update(t.Context(), sent, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := at(saved, "spec"); got != test.want {
				t.Errorf("it became %s, want %s", got, test.want)
			}
		})
	}
	s.t = t
	s.create("SandboxClaim", "v1beta1", "c", `{warmPoolRef: {name: p}}`)
	_, err := s.tryPatch("SandboxClaim", "v1beta1", "c", `{spec: {warmPoolRef: null}}`)
	refused(t, err, "a claim needs spec.warmPoolRef.name")
	if got := at(s.patch("SandboxClaim", "v1beta1", "c", `{spec: {warmPoolRef: {name: q}}}`), "spec.warmPoolRef.name"); got != "q" {
		t.Errorf("the edited pool is %s", got)
	}
}
