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

// configuration is what the field manager wants of the workload: the stamps, those that
// are set, and the record.
func (w *Workload) configuration(want Stamps, record *Record) (consistent.Patch, error) {
	metadata := map[string]any{}
	if record != nil {
		text, err := json.Marshal(record)
		if err != nil {
			return nil, err
		}
		metadata["annotations"] = map[string]any{api.AnnotationRollout: string(text)}
	}
	if want == (Stamps{}) {
		return consistent.Patch{"metadata": metadata}, nil
	}
	labels := map[string]any{api.LabelType: want.Type}
	if !w.managedByOthers() {
		labels[api.LabelManagedBy] = api.ManagedBy
	}
	metadata["labels"] = labels
	template := "template"
	if w.Kind == Sandbox {
		template = "podTemplate"
	}
	return consistent.Patch{
		"metadata": metadata,
		"spec": map[string]any{template: map[string]any{"metadata": map[string]any{
			"labels":      map[string]any{api.LabelType: want.Type},
			"annotations": map[string]any{api.AnnotationConfigHash: want.ConfigHash, api.AnnotationMTLSMode: want.MTLSMode},
		}}},
	}, nil
}
