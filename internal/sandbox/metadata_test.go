// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

func TestMetadataOfAPodThatIsThere(t *testing.T) {
	type changes struct {
		labels, annotations map[string]any
		changed             []string
	}
	none := changes{labels: map[string]any{}, annotations: map[string]any{}}
	pooledPod := func(p *corev1.Pod) {
		p.Labels[agents.LabelWarmPool], p.Labels[agents.LabelCreatedBy] = agents.NameHash("fast"), "controller"
		p.Labels[agents.LabelTemplateRefHash] = agents.NameHash("python")
		p.Annotations[agents.AnnotationSafeToEvict] = "true"
	}
	noEviction := settings{}
	cases := map[string]struct {
		edit func(*agents.Sandbox)
		pod  func(*corev1.Pod)
		own  bool // the pod is made from the edited Sandbox, not from the plain one
		set  *settings
		want changes
	}{
		"a new pod needs no second write": {want: none},
		"a pool member's neither":         {edit: inPool, own: true, want: none},
		"a template's change is applied": {
			edit: func(s *agents.Sandbox) {
				s.Spec.PodTemplate.Metadata = agents.PodMetadata{Labels: map[string]string{"team": "b"}, Annotations: map[string]string{"other": "z"}}
			},
			want: changes{
				labels:      map[string]any{"team": "b"},
				annotations: map[string]any{"note": nil, "other": "z", agents.AnnotationPropagatedAnnotations: "other"},
				changed:     []string{"metadata.labels[team]", "metadata.annotations[note]", "metadata.annotations[other]"},
			},
		},
		"a template without metadata leaves none": {
			edit: func(s *agents.Sandbox) { s.Spec.PodTemplate.Metadata = agents.PodMetadata{} },
			want: changes{
				labels:      map[string]any{"team": nil},
				annotations: map[string]any{"note": nil, agents.AnnotationPropagatedLabels: nil, agents.AnnotationPropagatedAnnotations: nil},
				changed:     []string{"metadata.labels[team]", "metadata.annotations[note]"},
			},
		},
		"an empty list of keys is no list": {
			edit: func(s *agents.Sandbox) { s.Spec.PodTemplate.Metadata = agents.PodMetadata{} },
			pod: func(p *corev1.Pod) {
				delete(p.Labels, "team")
				p.Annotations = map[string]string{agents.AnnotationPropagatedLabels: "", agents.AnnotationPropagatedAnnotations: ""}
			},
			want: none,
		},
		"what others put on the pod stays": {
			pod:  func(p *corev1.Pod) { p.Labels["theirs"], p.Annotations["theirs"] = "1", "1" },
			want: none,
		},
		"a template's key that somebody changed is set right": {
			pod:  func(p *corev1.Pod) { p.Labels["team"] = "forged" },
			want: changes{labels: map[string]any{"team": "a"}, annotations: map[string]any{}, changed: []string{"metadata.labels[team]"}},
		},
		"system keys in the template never reach the pod": {
			edit: func(s *agents.Sandbox) {
				s.Spec.PodTemplate.Metadata.Labels[agents.LabelSandboxUID] = "forged"
				s.Spec.PodTemplate.Metadata.Labels["extensions.agents.x-k8s.io/x"] = "forged"
				s.Spec.PodTemplate.Metadata.Annotations[agents.AnnotationTemplateRevision] = "forged"
				s.Spec.PodTemplate.Metadata.Annotations[agents.AnnotationTraceContext] = "{}"
			},
			want: none,
		},
		"system keys that once did are taken off": {
			pod: func(p *corev1.Pod) {
				p.Labels["agents.x-k8s.io/launch-type"] = "warm"
				p.Annotations[agents.AnnotationPropagatedLabels] = "agents.x-k8s.io/launch-type,agents.x-k8s.io/sandbox-name-hash,team"
			},
			want: changes{labels: map[string]any{"agents.x-k8s.io/launch-type": nil}, annotations: map[string]any{agents.AnnotationPropagatedLabels: "team"}},
		},
		"a forged list does not take off the revision": {
			pod: func(p *corev1.Pod) {
				p.Annotations[agents.AnnotationPropagatedAnnotations] = agents.AnnotationTemplateRevision + ",note"
			},
			want: changes{labels: map[string]any{}, annotations: map[string]any{agents.AnnotationPropagatedAnnotations: "note"}},
		},
		"adoption is one patch": {
			edit: func(s *agents.Sandbox) { inClaim(s); s.Labels = map[string]string{agents.LabelCreatedBy: "go-client"} },
			pod:  pooledPod,
			want: changes{
				labels:      map[string]any{agents.LabelWarmPool: nil, agents.LabelClaimUID: "claim-uid", agents.LabelCreatedBy: "go-client"},
				annotations: map[string]any{agents.AnnotationSafeToEvict: nil},
			},
		},
		"a template's own word on eviction survives adoption": {
			edit: func(s *agents.Sandbox) {
				inClaim(s)
				s.Spec.PodTemplate.Metadata.Annotations = map[string]string{agents.AnnotationSafeToEvict: "false"}
			},
			own:  true,
			pod:  func(p *corev1.Pod) { p.Labels[agents.LabelWarmPool] = agents.NameHash("fast") },
			want: changes{labels: map[string]any{agents.LabelWarmPool: nil}, annotations: map[string]any{}},
		},
		"a person's word on eviction survives": {
			pod:  func(p *corev1.Pod) { p.Annotations[agents.AnnotationSafeToEvict] = "true" },
			want: none,
		},
		"without the option pool members say nothing on eviction": {
			edit: inPool, own: true, set: &noEviction, pod: func(p *corev1.Pod) { delete(p.Annotations, agents.AnnotationSafeToEvict) }, want: none,
		},
		"an unknown creator is called unknown": {
			edit: func(s *agents.Sandbox) { s.Labels = map[string]string{agents.LabelCreatedBy: "my-tool"} },
			pod:  func(p *corev1.Pod) { p.Labels[agents.LabelCreatedBy] = "my-tool" },
			want: changes{labels: map[string]any{agents.LabelCreatedBy: "unknown"}, annotations: map[string]any{}},
		},
		"a label only counts for a pool's own": {
			edit: func(s *agents.Sandbox) {
				s.Labels = map[string]string{agents.LabelWarmPool: "forged", agents.LabelTemplateRefHash: "forged"}
			},
			want: none,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSandbox()
			if c.edit != nil {
				c.edit(s)
			}
			pod := newPod(newSandbox())
			if c.own {
				pod = newPod(s)
			}
			if c.pod != nil {
				c.pod(pod)
			}
			set := testSettings
			if c.set != nil {
				set = *c.set
			}
			var got changes
			got.labels, got.annotations, got.changed = metadataFor(s, set).changesTo(pod)
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%v\nwant\n%v", got, c.want)
			}
		})
	}
}

func TestTheTemplateRefHashIsTheAnnotations(t *testing.T) {
	s := newSandbox(inClaim, func(s *agents.Sandbox) { s.Labels = map[string]string{agents.LabelTemplateRefHash: "01234567"} })
	if got := metadataFor(s, testSettings).labels[agents.LabelTemplateRefHash]; got != agents.NameHash("python") {
		t.Errorf("got %q", got)
	}
	delete(s.Annotations, agents.AnnotationTemplateRef)
	if got := metadataFor(s, testSettings).labels[agents.LabelTemplateRefHash]; got != "01234567" {
		t.Errorf("got %q", got)
	}
}
