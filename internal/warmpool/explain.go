// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
)

// explain says what a member that is not Ready in time waits for, or "" if nothing
// explains it. Not progressing is not stuck: a new member would wait for the same
// node, image or quota, and the queue would begin anew. Only a member that nothing
// explains is worth replacing.
func explain(member *agents.Sandbox, pods []*corev1.Pod) string {
	ready := meta.FindStatusCondition(member.Status.Conditions, agents.ConditionReady)
	if ready != nil && ready.Reason == agents.ReasonMultiplePods {
		return ready.Message
	}
	for _, pod := range pods {
		if why := explainPod(pod); why != "" {
			return why
		}
	}
	switch {
	case ready == nil:
		return "its Sandbox has not been looked at yet"
	case len(pods) == 0:
		return "it has no pod: " + ready.Message
	}
	return ""
}

func explainPod(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "its pod is terminating on node " + pod.Spec.NodeName
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			(c.Reason == corev1.PodReasonUnschedulable || c.Reason == corev1.PodReasonSchedulingGated) {
			return because("its pod has no node ("+c.Reason+")", c.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return "its pod is ready, and its Sandbox does not say so"
		}
	}
	if pod.Status.Phase != corev1.PodPending {
		return ""
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if status.State.Running != nil {
			return "init container " + status.Name + " is running"
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := status.State.Waiting; waiting != nil && slices.Contains(comingUp, waiting.Reason) {
			return because("container "+status.Name+" is waiting ("+waiting.Reason+")", waiting.Message)
		}
	}
	if pod.Spec.NodeName != "" && len(pod.Status.ContainerStatuses) == 0 {
		return "node " + pod.Spec.NodeName + " has not started its pod yet"
	}
	return ""
}

// milestones are the conditions of a pod that say how far it has come. Each becomes True
// once.
var milestones = []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized}

// progressed is when the pods of a member last came a step further. A member that was
// held for long has its grace from then on: it only now begins to become Ready. A
// container that is started again is no step further.
func progressed(pods []*corev1.Pod) time.Time {
	var last time.Time
	at := func(t metav1.Time) {
		if t.After(last) {
			last = t.Time
		}
	}
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if c.Status == corev1.ConditionTrue && slices.Contains(milestones, c.Type) {
				at(c.LastTransitionTime)
			}
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if status.RestartCount == 0 && status.State.Running != nil {
				at(status.State.Running.StartedAt)
			}
		}
	}
	return last
}

// comingUp are the kubelet's reasons for a container that waits for something other
// than itself: its volumes and network, its image, or the init containers.
var comingUp = []string{"ContainerCreating", "PodInitializing", "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"}

func because(what, message string) string {
	if message == "" {
		return what
	}
	return what + ": " + message
}
