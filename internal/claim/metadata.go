// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

// DefaultLabelDomain is the domain under which a claim may set pod labels if the
// operator of the cluster names none.
const DefaultLabelDomain = "sandbox.users.io"

// invalidMetadata says what is wrong with the claim's additionalPodMetadata, or
// nothing. Claims come from users, so they may only set what nobody else relies on.
func invalidMetadata(claim *extensions.SandboxClaim, domains []string) string {
	given := claim.Spec.AdditionalPodMetadata
	for _, key := range slices.Sorted(maps.Keys(given.Labels)) {
		if problem := invalidLabel(key, given.Labels[key], domains); problem != "" {
			return fmt.Sprintf("spec.additionalPodMetadata.labels[%s]: %s", key, problem)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(given.Annotations)) {
		if problem := invalidAnnotation(key); problem != "" {
			return fmt.Sprintf("spec.additionalPodMetadata.annotations[%s]: %s", key, problem)
		}
	}
	return ""
}

func invalidLabel(key, value string, domains []string) string {
	if key == agents.LabelApp && strings.EqualFold(value, agents.AppSandboxRouter) {
		return "this label would open the network policies of other Sandboxes; remove it"
	}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return "not a valid label key: " + strings.Join(problems, "; ")
	}
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return "not a valid label value: " + strings.Join(problems, "; ")
	}
	domain, _, prefixed := strings.Cut(key, "/")
	if !prefixed || !slices.ContainsFunc(domains, func(allowed string) bool { return isUnder(domain, allowed) }) {
		return "labels need a prefix of one of the allowed domains, or of one below them: " + strings.Join(domains, ", ")
	}
	return ""
}

func invalidAnnotation(key string) string {
	if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
		return "not a valid annotation key: " + strings.Join(problems, "; ")
	}
	domain, _, prefixed := strings.Cut(key, "/")
	if !prefixed || key == agents.AnnotationSafeToEvict {
		return ""
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io", "agents.x-k8s.io"} {
		if isUnder(domain, reserved) {
			return "keys under " + reserved + " are reserved; use another domain"
		}
	}
	return ""
}

func isUnder(domain, parent string) bool {
	domain = strings.ToLower(domain)
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// merge is how one map of the claim's metadata goes into the podTemplate's (R8): the
// claim owns the keys it put there and nothing else. A key is written only when the
// claim's own value for it changed; another writer's value on it is a conflict to
// report, not to fight over.
type merge struct {
	set       map[string]any    // keys to write; nil removes
	applied   map[string]string // the claim's own keys afterwards
	conflicts []string
}

func mergeKeys(current, applied, want map[string]string) merge {
	m := merge{set: map[string]any{}, applied: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		is, present := current[key]
		was, owned := applied[key]
		switch value := want[key]; {
		case present && is == value:
			if owned {
				m.applied[key] = value
			}
		case !owned && !present, owned && was != value:
			m.set[key], m.applied[key] = value, value
		default:
			m.conflicts = append(m.conflicts, key)
			if owned {
				m.applied[key] = was
			}
		}
	}
	for key, was := range applied {
		if _, wanted := want[key]; !wanted && current[key] == was {
			m.set[key] = nil
		}
	}
	return m
}

// metadataMerge is the merge of both maps.
func metadataMerge(claim *extensions.SandboxClaim, s *agents.Sandbox) (labels, annotations merge) {
	applied := appliedMetadata(s)
	current, want := s.Spec.PodTemplate.Metadata, claim.Spec.AdditionalPodMetadata
	return mergeKeys(current.Labels, applied.Labels, want.Labels), mergeKeys(current.Annotations, applied.Annotations, want.Annotations)
}

// appliedMetadata is what the claim last put into the Sandbox's podTemplate. An
// annotation that does not parse is one somebody broke: nothing counts as the claim's.
func appliedMetadata(s *agents.Sandbox) agents.PodMetadata {
	var applied agents.PodMetadata
	if err := json.Unmarshal([]byte(s.Annotations[agents.AnnotationClaimMetadata]), &applied); err != nil {
		return agents.PodMetadata{}
	}
	return applied
}

// metadataPatch is what to write to the Sandbox so that its podTemplate carries the
// claim's metadata, and whether there is anything to write.
func metadataPatch(claim *extensions.SandboxClaim, s *agents.Sandbox) (consistent.Patch, bool) {
	labels, annotations := metadataMerge(claim, s)
	record := recordOf(labels, annotations)
	if len(labels.set) == 0 && len(annotations.set) == 0 && record == s.Annotations[agents.AnnotationClaimMetadata] {
		return nil, false
	}
	patch := consistent.Patch{"metadata": map[string]any{"annotations": map[string]any{agents.AnnotationClaimMetadata: orNil(record)}}}
	if len(labels.set) > 0 || len(annotations.set) > 0 {
		patch["spec"] = map[string]any{"podTemplate": map[string]any{"metadata": map[string]any{
			"labels": labels.set, "annotations": annotations.set,
		}}}
	}
	return patch, true
}

// recordOf is the value of the annotation that remembers the claim's keys.
func recordOf(labels, annotations merge) string {
	if len(labels.applied) == 0 && len(annotations.applied) == 0 {
		return ""
	}
	record, err := json.Marshal(agents.PodMetadata{Labels: labels.applied, Annotations: annotations.applied})
	if err != nil {
		panic(err) // maps of strings
	}
	return string(record)
}

// withMetadata does to a Sandbox that is about to be created what metadataPatch does
// to one that exists.
func withMetadata(claim *extensions.SandboxClaim, s *agents.Sandbox) {
	labels, annotations := metadataMerge(claim, s)
	template := &s.Spec.PodTemplate.Metadata
	template.Labels = overlaid(template.Labels, labels.applied)
	template.Annotations = overlaid(template.Annotations, annotations.applied)
	if record := recordOf(labels, annotations); record != "" {
		s.Annotations[agents.AnnotationClaimMetadata] = record
	}
}

func overlaid(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	all := maps.Clone(base)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, over)
	return all
}

// metadataConflicts are the claim's keys on which somebody else's value stands.
func metadataConflicts(claim *extensions.SandboxClaim, s *agents.Sandbox) []string {
	labels, annotations := metadataMerge(claim, s)
	var conflicts []string
	for _, key := range labels.conflicts {
		conflicts = append(conflicts, "label "+key)
	}
	for _, key := range annotations.conflicts {
		conflicts = append(conflicts, "annotation "+key)
	}
	return conflicts
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}
