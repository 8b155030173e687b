// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func TestMergeKeys(t *testing.T) {
	type keys = map[string]string
	for name, c := range map[string]struct {
		current, applied, want keys
		set                    map[string]any
		owned                  keys
		conflicts              []string
	}{
		"a new key is set":                                       {keys{}, keys{}, keys{"a": "1"}, map[string]any{"a": "1"}, keys{"a": "1"}, nil},
		"a key that stands is left alone":                        {keys{"a": "1"}, keys{"a": "1"}, keys{"a": "1"}, map[string]any{}, keys{"a": "1"}, nil},
		"a changed value of the claim is written":                {keys{"a": "1"}, keys{"a": "1"}, keys{"a": "2"}, map[string]any{"a": "2"}, keys{"a": "2"}, nil},
		"a key the claim dropped is removed":                     {keys{"a": "1"}, keys{"a": "1"}, keys{}, map[string]any{"a": nil}, keys{}, nil},
		"a dropped key somebody else changed stays":              {keys{"a": "9"}, keys{"a": "1"}, keys{}, map[string]any{}, keys{}, nil},
		"foreign keys stay":                                      {keys{"b": "9"}, keys{}, keys{"a": "1"}, map[string]any{"a": "1"}, keys{"a": "1"}, nil},
		"the template's value is not overwritten":                {keys{"a": "9"}, keys{}, keys{"a": "1"}, map[string]any{}, keys{}, []string{"a"}},
		"the template's equal value does not become the claim's": {keys{"a": "1"}, keys{}, keys{"a": "1"}, map[string]any{}, keys{}, nil},
		"a foreign value is not fought over":                     {keys{"a": "9"}, keys{"a": "1"}, keys{"a": "1"}, map[string]any{}, keys{"a": "1"}, []string{"a"}},
		"a key somebody removed is not fought over":              {keys{}, keys{"a": "1"}, keys{"a": "1"}, map[string]any{}, keys{"a": "1"}, []string{"a"}},
		"a claim that changes its value gets it":                 {keys{"a": "9"}, keys{"a": "1"}, keys{"a": "2"}, map[string]any{"a": "2"}, keys{"a": "2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := mergeKeys(c.current, c.applied, c.want)
			if diff := cmp.Diff(merge{c.set, c.owned, c.conflicts}, got, cmp.AllowUnexported(merge{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInvalidMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		valid               bool
	}{
		"a label of the default domain":           {map[string]string{"sandbox.users.io/a": "1"}, nil, true},
		"a label of a domain below it":            {map[string]string{"x.Sandbox.users.io/a": "1"}, nil, false}, // keys are lower case
		"a label of a lower-case domain below it": {map[string]string{"x.sandbox.users.io/a": "1"}, nil, true},
		"a label without a domain":                {map[string]string{"team": "1"}, nil, false},
		"a label of another domain":               {map[string]string{"evil-sandbox.users.io/a": "1"}, nil, false},
		"a label with a bad value":                {map[string]string{"sandbox.users.io/a": "no spaces"}, nil, false},
		"a label with a bad key":                  {map[string]string{"sandbox.users.io/a/b": "1"}, nil, false},
		"the router's label":                      {map[string]string{"app": "Sandbox-Router"}, nil, false},
		"an annotation without a domain":          {nil, map[string]string{"note": "anything at all"}, true},
		"an annotation of another domain":         {nil, map[string]string{"podsnapshot.gke.io/ps-name": "x"}, true},
		"an annotation of a reserved domain":      {nil, map[string]string{"kubernetes.io/x": "1"}, false},
		"an annotation below a reserved domain":   {nil, map[string]string{"foo.k8s.io/x": "1"}, false},
		"an annotation of the API's own domain":   {nil, map[string]string{"agents.x-k8s.io/pod-name": "1"}, false},
		"the autoscaler's annotation":             {nil, map[string]string{agents.AnnotationSafeToEvict: "false"}, true},
		"an annotation with a bad key":            {nil, map[string]string{"a b": "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newClaim(func(claim *extensions.SandboxClaim) {
				claim.Spec.AdditionalPodMetadata = agents.PodMetadata{Labels: c.labels, Annotations: c.annotations}
			})
			if problem := invalidMetadata(claim, []string{DefaultLabelDomain}); (problem == "") != c.valid {
				t.Errorf("got %q", problem)
			}
		})
	}
}

func TestMetadataSettlesAfterOnePatch(t *testing.T) {
	claim := newClaim(func(c *extensions.SandboxClaim) {
		c.Spec.AdditionalPodMetadata = agents.PodMetadata{Labels: map[string]string{"sandbox.users.io/a": "1"}, Annotations: map[string]string{"note": "x"}}
	})
	s := newSandbox("a", func(s *agents.Sandbox) {
		s.Spec.PodTemplate.Metadata.Annotations = map[string]string{"rossoctl.io/config-hash": "abc"}
		s.Annotations = map[string]string{}
	})
	if _, changed := metadataPatch(claim, s); !changed {
		t.Fatal("nothing to write")
	}
	withMetadata(claim, s)
	if patch, changed := metadataPatch(claim, s); changed {
		t.Errorf("still to write: %v", patch)
	}
	if s.Spec.PodTemplate.Metadata.Annotations["rossoctl.io/config-hash"] != "abc" {
		t.Error("somebody else's annotation is gone")
	}
}
