// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/control"
)

// mayAdoptFrom reports whether a pool hands out members.
func mayAdoptFrom(pool *extensions.SandboxWarmPool) bool {
	return pool != nil && pool.DeletionTimestamp == nil
}

// unfit says why a member cannot be adopted, or nothing if it can: it is this pool's,
// untouched, of a blueprint the pool allows, and its one pod is ready.
func unfit(from source, s *agents.Sandbox, pods []*corev1.Pod) string {
	switch {
	case s == nil:
		return "is gone"
	case !control.IsControlledBy(s, from.Pool.UID):
		return "belongs to something else by now"
	case s.DeletionTimestamp != nil:
		return "is being deleted"
	case !blueprint.Intact(s):
		return "was suspended or given an end"
	case from.OwnTemplate && s.Annotations[agents.AnnotationTemplateRef] != from.TemplateName:
		return "is of another template"
	case from.Blueprint != nil && !from.Blueprint.Matches(s):
		return "is of an older blueprint"
	case from.Pool.UpdateStrategyType() == extensions.WarmPoolRecreate && from.Blueprint == nil:
		return "cannot be compared with its template, which does not exist"
	}
	return podUnfit(s, pods)
}

// podUnfit looks at the pods the member owns.
func podUnfit(s *agents.Sandbox, pods []*corev1.Pod) string {
	alive := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !live(pod) })
	switch {
	case len(alive) == 0:
		return "has no pod"
	case len(alive) > 1:
		return "has more than one pod"
	case !podReady(alive[0]):
		return "has a pod that is not ready"
	case len(alive[0].Status.PodIPs) == 0, len(s.Status.PodIPs) == 0:
		return "has no pod IP"
	}
	return ""
}

// live reports whether there is a pod that is not being deleted.
func live(pod *corev1.Pod) bool { return pod != nil && pod.DeletionTimestamp == nil }

// serves reports whether a pod is all that a member needs of it.
func serves(pod *corev1.Pod) bool {
	return live(pod) && podReady(pod) && len(pod.Status.PodIPs) > 0
}

func podReady(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodRunning {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
