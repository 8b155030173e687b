// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

// podMetadata are the labels and annotations that a Sandbox's pod has. It follows from
// the podTemplate and from what controls the Sandbox; nothing of the system's is ever
// written into the podTemplate.
type podMetadata struct {
	labels      map[string]string
	annotations map[string]string
	// fromPool: the Sandbox is a pool's member.
	fromPool bool
}

// systemLabels are the labels that the controller sets on pods, and takes off again
// where they no longer apply.
var systemLabels = [...]string{
	agents.LabelSandboxNameHash, agents.LabelSandboxUID, agents.LabelWarmPool,
	agents.LabelTemplateRefHash, agents.LabelCreatedBy, agents.LabelClaimUID,
}

func metadataFor(s *agents.Sandbox, set settings) podMetadata {
	template := s.Spec.PodTemplate.Metadata
	m := podMetadata{labels: propagated(template.Labels), annotations: propagated(template.Annotations)}
	setKey(m.annotations, agents.AnnotationPropagatedLabels, keyList(m.labels))
	setKey(m.annotations, agents.AnnotationPropagatedAnnotations, keyList(propagated(template.Annotations)))

	m.labels[agents.LabelSandboxNameHash] = agents.NameHash(s.Name)
	m.labels[agents.LabelSandboxUID] = string(s.UID)
	setKey(m.labels, agents.LabelCreatedBy, agents.NormalizeCreatedBy(s.Labels[agents.LabelCreatedBy]))
	pool := control.ControllerOf(s, extensions.GroupName, extensions.SandboxWarmPoolKind)
	claim := control.ControllerOf(s, extensions.GroupName, extensions.SandboxClaimKind)
	if pool != nil || claim != nil {
		setKey(m.labels, agents.LabelTemplateRefHash, templateRefHash(s))
	}
	if claim != nil {
		m.labels[agents.LabelClaimUID] = string(claim.UID)
	}
	if pool != nil {
		m.fromPool = true
		m.labels[agents.LabelWarmPool] = agents.NameHash(pool.Name)
		if _, said := m.annotations[agents.AnnotationSafeToEvict]; !said && set.warmPoolEviction {
			m.annotations[agents.AnnotationSafeToEvict] = agents.SafeToEvictTrue
		}
	}
	return m
}

func templateRefHash(s *agents.Sandbox) string {
	if name := s.Annotations[agents.AnnotationTemplateRef]; name != "" {
		return agents.NameHash(name)
	}
	return s.Labels[agents.LabelTemplateRefHash]
}

func setKey(in map[string]string, key, value string) {
	if value != "" {
		in[key] = value
	}
}

func keyList(of map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(of)), ",")
}

func splitList(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// changesTo returns the labels and annotations to set and, with a nil value, to take
// off a pod, and which of the template's keys are among them. Keys that other writers
// put on the pod are left alone.
func (m podMetadata) changesTo(pod *corev1.Pod) (labels, annotations map[string]any, changed []string) {
	labels = difference(pod.Labels, m.labels,
		append(splitList(pod.Annotations[agents.AnnotationPropagatedLabels]), systemLabels[:]...))
	gone := splitList(pod.Annotations[agents.AnnotationPropagatedAnnotations])
	gone = slices.DeleteFunc(gone, func(key string) bool { return key == agents.AnnotationTemplateRevision })
	gone = append(gone, agents.AnnotationPropagatedLabels, agents.AnnotationPropagatedAnnotations)
	// The autoscaler's annotation has no other mark of who set it than the pool's
	// label, which goes in the same patch.
	if _, pooled := pod.Labels[agents.LabelWarmPool]; pooled && pod.Annotations[agents.AnnotationSafeToEvict] == agents.SafeToEvictTrue {
		gone = append(gone, agents.AnnotationSafeToEvict)
	}
	annotations = difference(pod.Annotations, m.annotations, gone)
	for _, part := range []struct {
		name string
		keys map[string]any
	}{{"metadata.labels", labels}, {"metadata.annotations", annotations}} {
		for _, key := range slices.Sorted(maps.Keys(part.keys)) {
			if !agents.IsSystemKey(key) && key != agents.AnnotationSafeToEvict {
				changed = append(changed, part.name+"["+key+"]")
			}
		}
	}
	return labels, annotations, changed
}

// difference is the merge patch that makes have contain want, and none of gone that is
// not wanted.
func difference(have, want map[string]string, gone []string) map[string]any {
	patch := map[string]any{}
	for key, value := range want {
		if old, ok := have[key]; !ok || old != value {
			patch[key] = value
		}
	}
	for _, key := range gone {
		_, wanted := want[key]
		if old, ok := have[key]; ok && !wanted && !emptyList(key, old) {
			patch[key] = nil
		}
	}
	return patch
}

// emptyList reports whether the annotation is a list of keys that has none, which says
// the same as no annotation.
func emptyList(key, value string) bool {
	return value == "" && (key == agents.AnnotationPropagatedLabels || key == agents.AnnotationPropagatedAnnotations)
}

// metadataPatch is a patch of metadata, or nil if there is nothing to change.
func metadataPatch(labels, annotations map[string]any) consistent.Patch {
	metadata := map[string]any{}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if len(metadata) == 0 {
		return nil
	}
	return consistent.Patch{"metadata": metadata}
}
