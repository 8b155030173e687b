// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// AnnotationRestartedAt is what kubectl sets on a pod template to have all pods replaced.
const AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"

// Suspended reports whether a workload should have no pods.
func Suspended(obj client.Object) bool { return Desired(obj) == 0 }

// Desired is how many pods a workload should have.
func Desired(obj client.Object) int32 {
	switch w := obj.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(w.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		return ptr.Deref(w.Spec.Replicas, 1)
	case *agents.Sandbox:
		if w.Running() {
			return 1
		}
	}
	return 0
}

// Stop returns the merge patch that suspends a workload, and nil if it is.
func Stop(obj client.Object) map[string]any {
	if Suspended(obj) {
		return nil
	}
	if s, ok := obj.(*agents.Sandbox); ok {
		return mode(s, agents.OperatingModeSuspended, 0)
	}
	return scale(0, strconv.Itoa(int(Desired(obj))))
}

// Start returns the merge patch that ends a workload's suspension, and nil if it is not
// suspended. A Deployment has as many replicas as before, and one if that is not known.
func Start(obj client.Object) map[string]any {
	if !Suspended(obj) {
		return nil
	}
	if s, ok := obj.(*agents.Sandbox); ok {
		return mode(s, agents.OperatingModeRunning, 1)
	}
	replicas, err := strconv.ParseInt(obj.GetAnnotations()[AnnotationReplicas], 10, 32)
	if err != nil || replicas < 1 {
		replicas = 1
	}
	return scale(replicas, nil)
}

// Restart returns the merge patch that has all pods of a Deployment or a StatefulSet
// replaced. The pod of a Sandbox has to be deleted.
func Restart(at string) map[string]any {
	return map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{AnnotationRestartedAt: at}}}}}
}

// mode sets both fields where both are in use: a Sandbox is off if either says so.
func mode(s *agents.Sandbox, m agents.OperatingMode, replicas int32) map[string]any {
	spec := map[string]any{"operatingMode": m}
	if s.Spec.Replicas != nil {
		spec["replicas"] = replicas
	}
	return map[string]any{"spec": spec}
}

// scale sets the number of replicas, and what is remembered of the former one.
func scale(to int64, former any) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{AnnotationReplicas: former}},
		"spec":     map[string]any{"replicas": to},
	}
}
