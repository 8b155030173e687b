// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
)

// defaultContainer is the annotation that kubectl honours, too.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// containerFlag adds the flag that names a container.
func containerFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVarP(name, "container", "c", "",
		"the container; by default the one that the annotation "+defaultContainer+" names, or the first")
}

// chosenContainer is the container of a pod that is wanted, by default the annotated or the first one.
func chosenContainer(pod *corev1.Pod, wanted string) (string, error) {
	names := containerNames(pod)
	if wanted == "" {
		if annotated := pod.Annotations[defaultContainer]; slices.Contains(names, annotated) {
			return annotated, nil
		}
		return names[0], nil
	}
	if !slices.Contains(names, wanted) && statusOf(pod, wanted) == nil {
		return "", &problem{cause: fmt.Errorf("pod %s has no container %q", pod.Name, wanted),
			next: []string{"choose with -c one of: " + strings.Join(names, ", ")}}
	}
	return wanted, nil
}

func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, container := range pod.Spec.Containers {
		names = append(names, container.Name)
	}
	return names
}

// statusOf is the status of a container of any sort, or nil.
func statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	statuses := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses)
	at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return &statuses[at]
}

// containerOf chooses the container of a pod to work in, and refuses one that does not run.
func (p *program) containerOf(pod *corev1.Pod, wanted string) (string, error) {
	name, err := chosenContainer(pod, wanted)
	if err != nil {
		return "", err
	}
	status := statusOf(pod, name)
	next := []string{p.command("ls") + " shows the sandbox's state", "kubectl describe pod -n " + pod.Namespace + " " + pod.Name + " shows what happens to it"}
	if pod.DeletionTimestamp != nil {
		return "", &problem{cause: fmt.Errorf("pod %s is being deleted", pod.Name), next: next}
	}
	if status == nil {
		return "", &problem{cause: fmt.Errorf("pod %s does not run yet: its phase is %s%s", pod.Name, pod.Status.Phase, unscheduled(pod)), next: next}
	}
	if state := status.State; state.Running == nil {
		return "", &problem{cause: fmt.Errorf("container %s of pod %s does not run: %s", name, pod.Name, stopped(state)), next: next}
	}
	return name, nil
}

// unscheduled is why a pod has no node, to follow a sentence, or "".
func unscheduled(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status != corev1.ConditionTrue {
			return fmt.Sprintf(" (%s: %s)", condition.Reason, condition.Message)
		}
	}
	return ""
}

// stopped says why a container does not run.
func stopped(state corev1.ContainerState) string {
	switch {
	case state.Terminated != nil:
		return fmt.Sprintf("it ended with exit code %d (%s)", state.Terminated.ExitCode, state.Terminated.Reason)
	case state.Waiting != nil && state.Waiting.Message != "":
		return state.Waiting.Reason + ": " + state.Waiting.Message
	case state.Waiting != nil:
		return state.Waiting.Reason
	default:
		return "it has not started"
	}
}
