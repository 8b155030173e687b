// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// admit does what schema defaults, admission policies and quotas do.
func (run *Run) admit(resource string, old, obj client.Object) error {
	switch obj := obj.(type) {
	case *agents.Sandbox:
		if old == nil && run.world.sandboxQuota {
			return overQuota(run, resource, obj)
		}
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
	case *corev1.Pod:
		if old == nil && run.world.podQuota {
			return overQuota(run, resource, obj)
		}
	}
	return nil
}

func defaultUpdateStrategy(strategy *agents.SandboxUpdateStrategy) {
	if strategy != nil && strategy.Type == "" {
		strategy.Type = agents.SandboxUpdateOnDelete
	}
}

func overQuota(run *Run, resource string, obj client.Object) error {
	return apierrors.NewForbidden(run.server.tables[resource].resource, obj.GetName(), errors.New("exceeded quota: pods"))
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
