// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	runtimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/workload"
)

// altered shows Sandboxes other than they are.
type altered struct {
	consistent.Kind[*agents.Sandbox]
	alter func(*agents.Sandbox)
}

func (a *altered) Get(ctx context.Context, key types.NamespacedName) (*agents.Sandbox, bool, error) {
	return a.shown(a.Kind.Get(ctx, key))
}

func (a *altered) Live(ctx context.Context, key types.NamespacedName) (*agents.Sandbox, bool, error) {
	return a.shown(a.Kind.Live(ctx, key))
}

func (a *altered) shown(s *agents.Sandbox, ok bool, err error) (*agents.Sandbox, bool, error) {
	if ok && err == nil {
		s = s.DeepCopy()
		a.alter(s)
	}
	return s, ok, err
}

// recordOn is the record of a Sandbox; the zero value if there is none.
func recordOn(s *agents.Sandbox) workload.Record {
	var r workload.Record
	if text, ok := s.Annotations[runtimes.AnnotationRollout]; ok && json.Unmarshal([]byte(text), &r) != nil {
		return workload.Record{}
	}
	return r
}

func setRecord(s *agents.Sandbox, r workload.Record) {
	text, err := json.Marshal(r)
	if err != nil {
		panic("a record has no JSON form: " + err.Error())
	}
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, runtimes.AnnotationRollout, string(text))
}

// inTwoWrites writes the stamps first, and the record in a write of its own.
type inTwoWrites struct{ *altered }

func (i *inTwoWrites) Apply(ctx context.Context, base *agents.Sandbox, manager string, configuration consistent.Patch) (*agents.Sandbox, error) {
	stamps := maps.Clone(configuration)
	metadata, _ := stamps["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	delete(metadata, "annotations")
	stamps["metadata"] = metadata
	applied, err := i.Kind.Apply(ctx, base, manager, stamps)
	if err != nil {
		return applied, err
	}
	return i.Kind.Apply(ctx, applied, manager, configuration)
}

// silent keeps to itself when a rollout began.
type silent struct {
	consistent.Kind[*runtimes.AgentRuntime]
	began map[types.UID]string
}

func (s *silent) Get(ctx context.Context, key types.NamespacedName) (*runtimes.AgentRuntime, bool, error) {
	a, ok, err := s.Kind.Get(ctx, key)
	if !ok || err != nil || s.began[a.UID] == "" {
		return a, ok, err
	}
	at, err := time.Parse(time.RFC3339, s.began[a.UID])
	a = a.DeepCopy()
	a.Status.RolloutStartTime = &metav1.Time{Time: at}
	return a, ok, err
}

func (s *silent) PatchStatus(ctx context.Context, base *runtimes.AgentRuntime, p consistent.Patch) (*runtimes.AgentRuntime, error) {
	status, _ := p["status"].(map[string]any)
	switch began, said := status["rolloutStartTime"]; {
	case said && began != nil:
		s.began[base.UID], _ = began.(string)
		return base, nil
	case said:
		delete(s.began, base.UID)
	}
	return s.Kind.PatchStatus(ctx, base, p)
}

// boundless sees none of the rollouts that are under way.
type boundless struct {
	consistent.Kind[*runtimes.AgentRuntime]
}

func (b *boundless) By(ctx context.Context, index, value string) ([]*runtimes.AgentRuntime, error) {
	if index == kinds.ByRolling {
		return nil, nil
	}
	return b.Kind.By(ctx, index, value)
}

// hopeful takes what cannot be read for absent.
type hopeful struct {
	consistent.Kind[*corev1.ConfigMap]
}

func (h *hopeful) Live(ctx context.Context, key types.NamespacedName) (*corev1.ConfigMap, bool, error) {
	m, ok, err := h.Kind.Live(ctx, key)
	return m, ok && err == nil, nil
}

// meddling takes the name of a pod that it deletes off the Sandbox.
type meddling struct {
	consistent.Kind[*corev1.Pod]
	sandboxes consistent.Kind[*agents.Sandbox]
}

func (m *meddling) Delete(ctx context.Context, pod *corev1.Pod, when consistent.Precondition) error {
	if s, ok, err := m.sandboxes.Get(ctx, key(pod.Name)); ok && err == nil && s.Annotations[agents.AnnotationPodName] != "" {
		_, _ = m.sandboxes.Patch(ctx, s, consistent.Patch{"metadata": map[string]any{"annotations": map[string]any{agents.AnnotationPodName: nil}}})
	}
	return m.Kind.Delete(ctx, pod, when)
}

// believing asks its cache where it should ask the server.
type believing struct {
	consistent.Kind[*corev1.Pod]
}

func (b *believing) Live(ctx context.Context, key types.NamespacedName) (*corev1.Pod, bool, error) {
	return b.Kind.Get(ctx, key)
}
