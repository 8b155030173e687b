// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// TestRevisionsNeverMove keeps what builds that are in use have written on pods. A
// value that moves replaces or marks pods that nobody changed: it needs another
// revisionAlgorithm, and a corpus of its own. -update adds values and changes none.
func TestRevisionsNeverMove(t *testing.T) {
	file := filepath.Join("testdata", "revisions", "values")
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		known[name] = value
	}
	templates, err := filepath.Glob(filepath.Join("testdata", "revisions", "*.yaml"))
	if err != nil || len(templates) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	seen := map[string]string{}
	for _, template := range templates {
		name := strings.TrimSuffix(filepath.Base(template), ".yaml")
		got := revision(readSandbox(t, template))
		if !comparableRevision(got) {
			t.Errorf("%s: %q is not a revision", name, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s have the same revision", name, other)
		}
		seen[got] = name
		if want, ok := known[name]; ok && got != want {
			t.Errorf("%s: the revision moved from %s to %s", name, want, got)
		} else if !ok && !*update {
			t.Errorf("%s: no value is known", name)
		} else if !ok {
			known[name] = got
		}
	}
	if *update {
		var lines bytes.Buffer
		for _, name := range slices.Sorted(maps.Keys(known)) {
			lines.WriteString(name + " " + known[name] + "\n")
		}
		if err := os.WriteFile(file, lines.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(known) != len(templates) {
		t.Errorf("%d values are known, of %d templates", len(known), len(templates))
	}
}

func readSandbox(t *testing.T, file string) *agents.Sandbox {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &agents.Sandbox{}
	if err := yaml.UnmarshalStrict(text, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatARevisionCovers(t *testing.T) {
	base := newSandbox()
	cases := map[string]struct {
		edit           func(*agents.Sandbox)
		spec, metadata bool // whether the half moves
	}{
		"the spec":       {edit: newImage, spec: true},
		"an annotation":  {edit: newNote, metadata: true},
		"a label":        {edit: func(s *agents.Sandbox) { s.Spec.PodTemplate.Metadata.Labels["team"] = "b" }, metadata: true},
		"an empty label": {edit: func(s *agents.Sandbox) { s.Spec.PodTemplate.Metadata.Labels["x"] = "" }, metadata: true},
		"a label as an annotation": {edit: func(s *agents.Sandbox) {
			m := &s.Spec.PodTemplate.Metadata
			m.Labels, m.Annotations = m.Annotations, m.Labels
		}, metadata: true},
		"not system keys": {edit: func(s *agents.Sandbox) {
			s.Spec.PodTemplate.Metadata.Labels[agents.LabelWarmPool] = "x"
			s.Spec.PodTemplate.Metadata.Annotations[agents.AnnotationTraceContext] = "{}"
		}},
		"not a claim's keys": {edit: func(s *agents.Sandbox) {
			s.Spec.PodTemplate.Metadata.Labels["job"], s.Spec.PodTemplate.Metadata.Annotations["job"] = "7", "7"
			s.Annotations[agents.AnnotationClaimMetadata] = `{"labels":{"job":"7"},"annotations":{"job":"7"}}`
		}},
		"a broken record of a claim's keys counts as none": {edit: func(s *agents.Sandbox) {
			s.Annotations[agents.AnnotationClaimMetadata] = `{"labels":{"team":1}`
		}},
		"not the rest of the Sandbox": {edit: func(s *agents.Sandbox) {
			recreate(s)
			suspendedMode(s)
			s.Labels = map[string]string{"a": "b"}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSandbox()
			c.edit(s)
			old, now := revision(base), revision(s)
			spec, metadata := specOf(old) != specOf(now), old[len(old)-halfLength:] != now[len(now)-halfLength:]
			if spec != c.spec || metadata != c.metadata {
				t.Errorf("spec moves: %t, metadata moves: %t", spec, metadata)
			}
		})
	}
}
