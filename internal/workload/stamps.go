// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/consistent"
)

// Stamps are what a pod template says of the configuration that pods made from it have.
// The zero value is none.
type Stamps struct {
	Type       string `json:"type,omitempty"`
	ConfigHash string `json:"configHash,omitempty"`
	MTLSMode   string `json:"mtlsMode,omitempty"`
}

// stampsOf reads the labels and annotations of a pod template.
func stampsOf(labels, annotations map[string]string) Stamps {
	return Stamps{Type: labels[api.LabelType], ConfigHash: annotations[api.AnnotationConfigHash], MTLSMode: annotations[api.AnnotationMTLSMode]}
}

// Record is what the controller remembers on the workload, in the same write as the
// stamps, so that a crash between two writes loses nothing.
type Record struct {
	// Runtime is the UID of the AgentRuntime that the stamps are of.
	Runtime types.UID `json:"runtime"`
	// Stamps are those that were written with the record.
	Stamps Stamps `json:"stamps"`
	// Generation is the Sandbox's that has the stamps. It is 0 on other workloads, as is
	// all that follows.
	Generation int64 `json:"generation,omitempty"`
	// Observed says that the Sandbox's controller has seen Generation, and that Pods are
	// all pods that there were when it had. Pods that came later have the stamps.
	Observed bool `json:"observed,omitempty"`
	// Pods are the UIDs of pods that may be older than the stamps.
	Pods []types.UID `json:"pods,omitempty"`
}

// recordOf reads the record. What cannot be read counts as none: then nothing is proved.
func recordOf(annotations map[string]string) *Record {
	text, ok := annotations[api.AnnotationRollout]
	if !ok {
		return nil
	}
	r := &Record{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil
	}
	return r
}

func (r *Record) text() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

// released reports whether the record is of a workload that the stamps were taken off.
func (r *Record) released() bool { return r != nil && r.Stamps == Stamps{} }

// removal is the merge patch that takes off what this controller put on the workload and
// nobody has changed since, all but the record if there is one to keep.
//
// It is no apply of less, though that leaves more to the server: where nothing else is
// in the template's metadata, the server makes null of it, which definitions of
// Sandboxes do not allow; and stamps that a workload was created with would stay.
func (w *Workload) removal(keep *Record) (consistent.Patch, error) {
	was := w.Has
	if w.Record != nil {
		was = w.Record.Stamps
	}
	labels, annotations := map[string]any{}, map[string]any{}
	templateLabels, templateAnnotations := map[string]any{}, map[string]any{}
	remove := func(from map[string]any, key, has, was string) {
		if has != "" && has == was {
			from[key] = nil
		}
	}
	remove(labels, api.LabelType, w.labelType, was.Type)
	remove(labels, api.LabelManagedBy, w.managedBy, api.ManagedBy)
	remove(templateLabels, api.LabelType, w.Has.Type, was.Type)
	remove(templateAnnotations, api.AnnotationConfigHash, w.Has.ConfigHash, was.ConfigHash)
	remove(templateAnnotations, api.AnnotationMTLSMode, w.Has.MTLSMode, was.MTLSMode)
	annotations[api.AnnotationRollout] = nil
	if keep != nil {
		text, err := keep.text()
		if err != nil {
			return nil, err
		}
		annotations[api.AnnotationRollout] = text
	}
	p := consistent.Patch{"metadata": map[string]any{"labels": labels, "annotations": annotations}}
	if len(templateLabels)+len(templateAnnotations) > 0 {
		p["spec"] = map[string]any{w.template(): map[string]any{"metadata": map[string]any{"labels": templateLabels, "annotations": templateAnnotations}}}
	}
	return p, nil
}

// template is where the pod template is in the spec.
func (w *Workload) template() string {
	if w.Kind == Sandbox {
		return "podTemplate"
	}
	return "template"
}

// configuration is what the field manager wants of the workload: the stamps and the record.
func (w *Workload) configuration(want Stamps, record *Record) (consistent.Patch, error) {
	metadata := map[string]any{}
	if record != nil {
		text, err := record.text()
		if err != nil {
			return nil, err
		}
		metadata["annotations"] = map[string]any{api.AnnotationRollout: text}
	}
	labels := map[string]any{api.LabelType: want.Type}
	if !w.managedByOthers() {
		labels[api.LabelManagedBy] = api.ManagedBy
	}
	metadata["labels"] = labels
	return consistent.Patch{
		"metadata": metadata,
		"spec": map[string]any{w.template(): map[string]any{"metadata": map[string]any{
			"labels":      map[string]any{api.LabelType: want.Type},
			"annotations": map[string]any{api.AnnotationConfigHash: want.ConfigHash, api.AnnotationMTLSMode: want.MTLSMode},
		}}},
	}, nil
}
