// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// revisionAlgorithm names how revisions are computed. A change of the computation needs
// another name: revisions of different names are not compared, and no pod is outdated
// because the controller was.
const revisionAlgorithm = "v1"

// halfLength is the number of hexadecimal digits of each half of a revision: 64 bits.
const halfLength = 16

// revision is the revision of the Sandbox's podTemplate: the algorithm, a dash, 64 bits
// of the spec, and 64 bits of the labels and annotations, so that the two can be told
// apart without the template a pod was made from. Keys that are not the template's own
// are left out: the system's, and those that a claim put there.
func revision(s *agents.Sandbox) string {
	return revisionAlgorithm + "-" + digest(canonicalJSON(&s.Spec.PodTemplate.Spec)) + digest(appendPlain(nil, ownMetadata(s)))
}

// comparableRevision reports whether a revision was computed as this build computes them.
func comparableRevision(rev string) bool {
	algorithm, digits, _ := strings.Cut(rev, "-")
	return algorithm == revisionAlgorithm && len(digits) == 2*halfLength
}

// specOf is the half of a comparable revision that stands for the spec.
func specOf(rev string) string { return strings.TrimPrefix(rev, revisionAlgorithm+"-")[:halfLength] }

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:halfLength]
}

// ownMetadata is what the revision covers of the template's labels and annotations.
func ownMetadata(s *agents.Sandbox) map[string]map[string]string {
	template, claims := s.Spec.PodTemplate.Metadata, claimMetadata(s)
	own := map[string]map[string]string{}
	if labels := without(propagated(template.Labels), claims.Labels); len(labels) > 0 {
		own["labels"] = labels
	}
	if annotations := without(propagated(template.Annotations), claims.Annotations); len(annotations) > 0 {
		own["annotations"] = annotations
	}
	return own
}

// without takes the keys of theirs out of all, and returns it.
func without(all, theirs map[string]string) map[string]string {
	maps.DeleteFunc(all, func(key, _ string) bool {
		_, found := theirs[key]
		return found
	})
	return all
}

// claimMetadata is what a claim put into the podTemplate. What cannot be read counts as
// nothing.
func claimMetadata(s *agents.Sandbox) agents.PodMetadata {
	var claims agents.PodMetadata
	text := s.Annotations[agents.AnnotationClaimMetadata]
	if text == "" {
		return claims
	}
	if err := json.Unmarshal([]byte(text), &claims); err != nil {
		return agents.PodMetadata{}
	}
	return claims
}

// propagated is the part of the template's labels or annotations that reaches the pod.
func propagated(template map[string]string) map[string]string {
	kept := make(map[string]string, len(template))
	for key, value := range template {
		if !agents.IsSystemKey(key) && key != agents.AnnotationTraceContext {
			kept[key] = value
		}
	}
	return kept
}

// drift says how a pod's template relates to the Sandbox's.
type drift struct {
	// current is the revision the pod was made from. A pod that does not say, or says
	// it in another algorithm, counts as made from the present template for as long as
	// it lives: nothing is known against it.
	current string
	// update is the revision of the podTemplate as it is.
	update string
}

func driftOf(s *agents.Sandbox, pod *corev1.Pod) drift {
	d := drift{update: revision(s)}
	d.current = d.update
	if recorded := pod.Annotations[agents.AnnotationTemplateRevision]; comparableRevision(recorded) {
		d.current = recorded
	}
	return d
}

func (d drift) outdated() bool { return d.current != d.update }

func (d drift) specChanged() bool { return d.outdated() && specOf(d.current) != specOf(d.update) }
