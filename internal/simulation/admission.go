// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// NewBerthServer returns a server of the kinds that Berth deals with. It admits what
// their schemas do, as far as a quota does not forbid it.
func NewBerthServer(clock *Clock) *Server {
	s := NewServer(clock)
	serveAll(s)
	s.Admit = func(resource string, old, obj client.Object) error {
		if old == nil && s.exhausted[resource] {
			return overQuota(s, resource, obj)
		}
		return conform(s, resource, old, obj)
	}
	return s
}

// Exhaust says whether the quota of a resource allows no more objects.
func (s *Server) Exhaust(resource string, exhausted bool) {
	if s.exhausted == nil {
		s.exhausted = map[string]bool{}
	}
	s.exhausted[resource] = exhausted
}

// admit does what quotas and schemas do in a run.
func (run *Run) admit(resource string, old, obj client.Object) error {
	switch obj.(type) {
	case *agents.Sandbox:
		if old == nil && run.world.sandboxQuota {
			return overQuota(run.server, resource, obj)
		}
	case *corev1.Pod:
		if old == nil && run.world.podQuota {
			return overQuota(run.server, resource, obj)
		}
	}
	return conform(run.server, resource, old, obj)
}

// conform sets the defaults of an object and refuses what its schema does not allow.
func conform(s *Server, resource string, old, obj client.Object) error {
	switch obj := obj.(type) {
	case *agents.Sandbox:
		before, _ := old.(*agents.Sandbox)
		keepInStep(before, obj)
		if obj.Spec.ShutdownPolicy == "" {
			obj.Spec.ShutdownPolicy = agents.ShutdownPolicyRetain
		}
		defaultUpdateStrategy(obj.Spec.UpdateStrategy)
	case *extensions.SandboxTemplate:
		defaultUpdateStrategy(obj.Spec.UpdateStrategy)
	case *extensions.SandboxWarmPool:
		if obj.Spec.Replicas == nil {
			obj.Spec.Replicas = ptr.To(int32(1))
		}
		if strategy := obj.Spec.UpdateStrategy; strategy != nil && strategy.Type == "" {
			strategy.Type = extensions.WarmPoolOnReplenish
		}
	case *extensions.SandboxClaim:
		if l := obj.Spec.Lifecycle; l != nil && l.ShutdownPolicy == "" {
			l.ShutdownPolicy = extensions.ClaimShutdownRetain
		}
	}
	return invalid(s.tables[resource].resource, obj, schemaErrors(old, obj))
}

// schemaErrors are what the schemas have against an object; of their rules these are
// the ones that a write of a controller or a user may run into.
func schemaErrors(old, obj client.Object) field.ErrorList {
	var found field.ErrorList
	at := field.NewPath("spec")
	switch obj := obj.(type) {
	case *agents.Sandbox:
		before, _ := old.(*agents.Sandbox)
		if before != nil && !equality.Semantic.DeepEqual(before.Spec.VolumeClaimTemplates, obj.Spec.VolumeClaimTemplates) {
			found = append(found, field.Invalid(at.Child("volumeClaimTemplates"), "", "volumeClaimTemplates is immutable"))
		}
		if before == nil && len(obj.Name) > 63 {
			found = append(found, field.Invalid(field.NewPath("metadata", "name"), obj.Name, "must have no more than 63 characters"))
		}
		if len(obj.Spec.PodTemplate.Spec.Containers) == 0 {
			found = append(found, field.Required(at.Child("podTemplate", "spec", "containers"), ""))
		}
	case *extensions.SandboxWarmPool:
		if *obj.Spec.Replicas < 0 {
			found = append(found, field.Invalid(at.Child("replicas"), *obj.Spec.Replicas, "must be 0 or more"))
		}
	case *extensions.SandboxClaim:
		if obj.PoolName() == "" && obj.TemplateName() == "" {
			found = append(found, field.Invalid(at, "", "a claim needs a pool or a template"))
		}
	}
	return found
}

func defaultUpdateStrategy(strategy *agents.SandboxUpdateStrategy) {
	if strategy != nil && strategy.Type == "" {
		strategy.Type = agents.SandboxUpdateOnDelete
	}
}

func overQuota(s *Server, resource string, obj client.Object) error {
	return apierrors.NewForbidden(s.tables[resource].resource, obj.GetName(), errors.New("exceeded quota: pods"))
}

// keepInStep keeps operatingMode and replicas equal: the one that a write changes
// wins, and off if both change and either is off.
func keepInStep(old, s *agents.Sandbox) {
	mode := s.Spec.OperatingMode != agents.OperatingModeSuspended
	replicas := s.Spec.Replicas == nil || *s.Spec.Replicas != 0
	running := mode && replicas
	if old != nil {
		was := old.Running()
		switch modeChanged, replicasChanged := mode != was, replicas != was; {
		case modeChanged && !replicasChanged:
			running = mode
		case replicasChanged && !modeChanged:
			running = replicas
		}
	}
	s.Spec.OperatingMode, s.Spec.Replicas = agents.OperatingModeRunning, ptr.To(int32(1))
	if !running {
		s.Spec.OperatingMode, s.Spec.Replicas = agents.OperatingModeSuspended, ptr.To(int32(0))
	}
}
