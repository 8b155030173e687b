// SPDX-License-Identifier: Apache-2.0

// Package workload is the one way to look at, and to write to, what runs agents: a
// Deployment, a StatefulSet or a Sandbox.
//
// It writes a few labels and annotations, the stamps, on the workload and its pod
// template, by server-side apply and never with force: what others set stays theirs. It
// says which pods are proved to have been made with the stamps. A pod's own labels and
// annotations prove nothing on a Sandbox, whose controller changes them in place.
package workload

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/kinds"
)

// Kinds of workloads.
const (
	Deployment  = "Deployment"
	StatefulSet = "StatefulSet"
	Sandbox     = agents.SandboxKind
)

const groupApps = "apps"

// Target is which workload. The version of its group is no part of that.
type Target struct {
	Namespace, Group, Kind, Name string
}

// TargetOf returns the workload that a reference names. An error says what in the
// reference has to be corrected.
func TargetOf(namespace string, ref api.TargetReference) (Target, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return Target{}, fmt.Errorf("spec.targetRef.apiVersion is %q: it must be a group and a version, such as apps/v1", ref.APIVersion)
	}
	t := Target{Namespace: namespace, Group: gv.Group, Kind: ref.Kind, Name: ref.Name}
	if !t.Supported() {
		return Target{}, fmt.Errorf("spec.targetRef names a %s of group %q: it must be a Deployment or StatefulSet of apps, or a Sandbox of %s",
			ref.Kind, gv.Group, agents.GroupName)
	}
	return t, nil
}

// TargetFrom returns the workload that an AgentRuntime's status names.
func TargetFrom(namespace string, ref api.WorkloadReference) Target {
	return Target{Namespace: namespace, Group: ref.Group, Kind: ref.Kind, Name: ref.Name}
}

// Supported reports whether this package knows workloads of that kind.
func (t Target) Supported() bool {
	switch t.Kind {
	case Deployment, StatefulSet:
		return t.Group == groupApps
	case Sandbox:
		return t.Group == agents.GroupName
	default:
		return false
	}
}

// Reference is the target as it stands in an AgentRuntime's status.
func (t Target) Reference() api.WorkloadReference {
	return api.WorkloadReference{Group: t.Group, Kind: t.Kind, Name: t.Name}
}

// Index is the value of kinds.ByTarget.
func (t Target) Index() string { return kinds.TargetValue(t.Namespace, t.Group, t.Kind, t.Name) }

func (t Target) key() types.NamespacedName {
	return types.NamespacedName{Namespace: t.Namespace, Name: t.Name}
}

func (t Target) String() string { return fmt.Sprintf("%s %q", t.Kind, t.Name) }
