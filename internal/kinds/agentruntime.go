// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	agentruntime "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/confighash"
	"github.com/berthdev/berth/internal/consistent"
)

// Index names of what the AgentRuntime controller works on.
const (
	// ByTarget finds AgentRuntimes by TargetValue of the workload they name, and of the
	// one that has their configuration.
	ByTarget = "target"
	// ByScope finds objects by namespace, and all under Cluster.
	ByScope = "scope"
	// ByRolling finds, by scope, AgentRuntimes that have begun to replace pods.
	ByRolling = "rolling"
	// ByWaiting finds, by scope, AgentRuntimes that wait until others have replaced theirs.
	ByWaiting = "waiting"
	// ByUID finds objects by UID.
	ByUID = "uid"
	// ByDefaults finds a namespace's ConfigMaps that hold defaults, by namespace.
	ByDefaults = "defaults"
)

// Cluster is the scope of everything. It is no namespace's name.
const Cluster = "*"

// TargetValue is the index value of a workload, whatever the version of its group.
func TargetValue(namespace, group, kind, name string) string {
	return namespace + "/" + group + "/" + kind + "/" + name
}

// AgentRuntimes are found by target and by what they wait for.
func AgentRuntimes() Kind[*agentruntime.AgentRuntime] {
	scopes := func(a *agentruntime.AgentRuntime) []string { return []string{a.Namespace, Cluster} }
	return Kind[*agentruntime.AgentRuntime]{
		GVK:      agentruntime.GroupVersion.WithKind(agentruntime.AgentRuntimeKind),
		Resource: "agentruntimes",
		New:      func() *agentruntime.AgentRuntime { return &agentruntime.AgentRuntime{} },
		Indexes: map[string]consistent.Index[*agentruntime.AgentRuntime]{
			ByTarget: targets,
			ByScope:  scopes,
			ByRolling: func(a *agentruntime.AgentRuntime) []string {
				if !IsRolling(a) {
					return nil
				}
				return scopes(a)
			},
			ByWaiting: func(a *agentruntime.AgentRuntime) []string {
				if rolloutReason(a) != agentruntime.ReasonRolloutPending {
					return nil
				}
				return scopes(a)
			},
		},
		Slim: withoutManagedFields[*agentruntime.AgentRuntime],
	}
}

func targets(a *agentruntime.AgentRuntime) []string {
	var values []string
	ref := a.Spec.TargetRef
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil {
		values = append(values, TargetValue(a.Namespace, gv.Group, ref.Kind, ref.Name))
	}
	if had := a.Status.Target; had != nil {
		if value := TargetValue(a.Namespace, had.Group, had.Kind, had.Name); len(values) == 0 || values[0] != value {
			values = append(values, value)
		}
	}
	return values
}

// IsRolling reports whether an AgentRuntime counts among those that replace pods. One
// that stalled, or cannot be helped without a person, is not waited for.
func IsRolling(a *agentruntime.AgentRuntime) bool {
	if a.Status.RolloutStartTime == nil {
		return false
	}
	reason := rolloutReason(a)
	return reason != agentruntime.ReasonRolloutStalled && reason != agentruntime.ReasonNotConfigured
}

func rolloutReason(a *agentruntime.AgentRuntime) string {
	if c := meta.FindStatusCondition(a.Status.Conditions, agentruntime.ConditionRolloutComplete); c != nil {
		return c.Reason
	}
	return ""
}

// Deployments are found by name. Of their pod templates the metadata and the names of
// volumes are kept.
func Deployments() Kind[*appsv1.Deployment] {
	return Kind[*appsv1.Deployment]{
		GVK:      appsv1.SchemeGroupVersion.WithKind("Deployment"),
		Resource: "deployments",
		New:      func() *appsv1.Deployment { return &appsv1.Deployment{} },
		Slim: func(d *appsv1.Deployment) *appsv1.Deployment {
			d.ManagedFields = nil
			d.Spec.Template.Spec = volumeNames(d.Spec.Template.Spec)
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Status.ObservedGeneration}
			return d
		},
	}
}

// StatefulSets are like Deployments.
func StatefulSets() Kind[*appsv1.StatefulSet] {
	return Kind[*appsv1.StatefulSet]{
		GVK:      appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		Resource: "statefulsets",
		New:      func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} },
		Slim: func(s *appsv1.StatefulSet) *appsv1.StatefulSet {
			s.ManagedFields = nil
			s.Spec.Template.Spec = volumeNames(s.Spec.Template.Spec)
			s.Spec.VolumeClaimTemplates = nil
			s.Status = appsv1.StatefulSetStatus{ObservedGeneration: s.Status.ObservedGeneration}
			return s
		},
	}
}

// ReplicaSets stand between Deployments and pods: found by their Deployment's UID and
// by their own.
func ReplicaSets() Kind[*appsv1.ReplicaSet] {
	return Kind[*appsv1.ReplicaSet]{
		GVK:      appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		Resource: "replicasets",
		New:      func() *appsv1.ReplicaSet { return &appsv1.ReplicaSet{} },
		Indexes: map[string]consistent.Index[*appsv1.ReplicaSet]{
			ByController: controller[*appsv1.ReplicaSet],
			ByUID:        func(r *appsv1.ReplicaSet) []string { return []string{string(r.UID)} },
		},
		Slim: func(r *appsv1.ReplicaSet) *appsv1.ReplicaSet {
			r.ManagedFields, r.Annotations = nil, nil
			r.Spec.Template.Spec = corev1.PodSpec{}
			r.Status = appsv1.ReplicaSetStatus{}
			return r
		},
	}
}

// ConfigMaps are found by name, and those with defaults by namespace. Of those that are
// no part of any configuration nothing but the name is kept.
func ConfigMaps() Kind[*corev1.ConfigMap] {
	return Kind[*corev1.ConfigMap]{
		GVK:      corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		Resource: "configmaps",
		New:      func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		Indexes: map[string]consistent.Index[*corev1.ConfigMap]{
			ByDefaults: func(m *corev1.ConfigMap) []string {
				if m.Labels[agentruntime.LabelDefaults] != agentruntime.DefaultsTrue {
					return nil
				}
				return []string{m.Namespace}
			},
		},
		Slim: func(m *corev1.ConfigMap) *corev1.ConfigMap {
			m.ManagedFields, m.BinaryData, m.Annotations = nil, nil, nil
			if !confighash.IsConfig(m.Name, m.Labels) {
				m.Data, m.Labels = nil, nil
			}
			return m
		},
	}
}

func volumeNames(spec corev1.PodSpec) corev1.PodSpec {
	var kept corev1.PodSpec
	for i := range spec.Volumes {
		kept.Volumes = append(kept.Volumes, corev1.Volume{Name: spec.Volumes[i].Name})
	}
	return kept
}
