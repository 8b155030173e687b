// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

// serviceVerdict is what is to be done about the Service.
type serviceVerdict struct {
	next    step
	problem string
	// required: the Sandbox is not Ready without it.
	required bool
	// exists: the Sandbox has it.
	exists bool
}

// decideService: spec.service true makes a headless Service, false removes it, and
// unset keeps one that is owned without making one. What the Sandbox does not own and
// does not ask for is none of its business.
func decideService(seen observed, pod podVerdict) serviceVerdict {
	s, service := seen.sandbox, seen.service
	mine := service != nil && relate(s, service) == owned
	v := serviceVerdict{exists: mine && service.DeletionTimestamp == nil}
	switch {
	case s.Spec.Service == nil:
		v.required = v.exists
	case *s.Spec.Service:
		v.required = true
	default:
		if v.exists {
			v.next = deleteService{service: service}
		}
		v.exists = false
	}
	if v.required {
		v.bringAbout(seen, pod)
	}
	if refused := seen.pass.refused(aboutService); refused != nil {
		v.next, v.problem = nil, refused.err.Error()
	}
	if pod.multiple() {
		v.next, v.problem = nil, ""
	}
	return v
}

// bringAbout says what a required Service lacks.
func (v *serviceVerdict) bringAbout(seen observed, pod podVerdict) {
	s, service := seen.sandbox, seen.service
	selector := serviceSelector(s, pod.current)
	if service == nil {
		v.next = createService{service: renderService(s, selector)}
		return
	}
	if service.DeletionTimestamp != nil {
		return // its event tells when the name is free
	}
	switch relate(s, service) {
	case owned:
		ports := service.Spec.Ports // of a Service that is not asked for they stay
		if s.Spec.Service != nil {
			ports = servicePorts(&s.Spec.PodTemplate.Spec)
		}
		if patch := servicePatch(s, service, selector, ports); patch != nil {
			v.next = patchService{service: service, patch: patch}
		}
	case foreign:
		v.problem = otherOwner(agents.MessageServiceOtherOwnerFormat, s, service)
	case unowned:
		v.problem = fmt.Sprintf(agents.MessageCannotAdoptFormat, "service", service.Name)
	case adoptable:
		if ip := service.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
			v.problem = fmt.Sprintf(agents.MessageServiceClusterIPFormat, service.Name, ip)
			return
		}
		patch := servicePatch(s, service, selector, servicePorts(&s.Spec.PodTemplate.Spec))
		if patch == nil {
			patch = consistent.Patch{}
		}
		metadata, ok := patch["metadata"].(map[string]any)
		if !ok {
			metadata = map[string]any{}
			patch["metadata"] = metadata
		}
		metadata["ownerReferences"] = ownersWith(s, service)
		v.next = patchService{service: service, patch: patch}
	}
}

// serviceSelector selects by UID too, since another Sandbox can have the same hash. A
// pod that does not carry the UID yet, because it could not be labelled, is still
// reached by the hash.
func serviceSelector(s *agents.Sandbox, pod *corev1.Pod) map[string]string {
	selector := map[string]string{agents.LabelSandboxNameHash: agents.NameHash(s.Name)}
	if pod == nil || pod.Labels[agents.LabelSandboxUID] == string(s.UID) {
		selector[agents.LabelSandboxUID] = string(s.UID)
	}
	return selector
}

// servicePatch brings label, selector and ports of a Service to what they should be. It
// is nil if they are.
func servicePatch(s *agents.Sandbox, service *corev1.Service, selector map[string]string, ports []corev1.ServicePort) consistent.Patch {
	patch := consistent.Patch{}
	if hash := agents.NameHash(s.Name); service.Labels[agents.LabelSandboxNameHash] != hash {
		patch["metadata"] = map[string]any{"labels": map[string]any{agents.LabelSandboxNameHash: hash}}
	}
	spec := map[string]any{}
	// The selector is the controller's alone: a further key would select nothing.
	if change := difference(service.Spec.Selector, selector, slices.Sorted(maps.Keys(service.Spec.Selector))); len(change) > 0 {
		spec["selector"] = change
	}
	if !samePorts(service.Spec.Ports, ports) {
		spec["ports"] = ports
	}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

func samePorts(have, want []corev1.ServicePort) bool {
	return slices.EqualFunc(have, want, func(a, b corev1.ServicePort) bool {
		return a.Name == b.Name && a.Port == b.Port && a.Protocol == b.Protocol && a.TargetPort == b.TargetPort
	})
}
