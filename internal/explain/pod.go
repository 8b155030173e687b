// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/internal/crashloop"
)

// trouble is what keeps an object from being what it should be, as its own status and
// not a controller of sandboxes tells.
type trouble struct {
	what   string
	advice []string
	// stays is true for what does not pass by itself, as far as can be known.
	stays bool
	// crashed is the container that ends, if that is the trouble. It may be Ready in between.
	crashed string
}

const (
	// late is how long past its grace period a pod may stay before that is said.
	late = 30 * time.Second
	// slow is how old a pod is before it is said that nobody has taken it up yet.
	slow = time.Minute
)

// podTroubles says what is wrong with a pod, the gravest first. node is the pod's if it
// has one and it could be read.
func podTroubles(pod *corev1.Pod, node nodeState, now time.Time) []trouble {
	switch {
	case pod.DeletionTimestamp != nil:
		return terminating(pod, node, now)
	case pod.Status.Phase == corev1.PodSucceeded:
		return nil
	case pod.Status.Phase == corev1.PodFailed:
		return []trouble{failed(pod)}
	}
	if t, waits := unscheduled(pod, now); waits {
		return t
	}
	var list []trouble
	if why := node.trouble(pod.Spec.NodeName); why != "" {
		list = append(list, trouble{what: why, advice: []string{"kubectl describe node " + pod.Spec.NodeName}, stays: true})
	}
	list = append(list, containerTroubles(pod, now)...)
	if len(list) > 0 || isReady(pod) {
		return list
	}
	return notReady(pod, now)
}

// terminating is about a pod on its way out, which the next one waits for.
func terminating(pod *corev1.Pod, node nodeState, now time.Time) []trouble {
	end := pod.DeletionTimestamp.Time // the end of the grace period
	if now.Before(end.Add(late)) {
		return []trouble{{what: "it is terminating; its grace period ends at " + clockTime(end)}}
	}
	since := "it should be gone since " + clockTime(end)
	if len(pod.Finalizers) > 0 {
		return []trouble{{
			what: fmt.Sprintf("%s, and is held by the finalizers %s", since, strings.Join(pod.Finalizers, ", ")),
			advice: []string{
				"find out who has to remove the finalizer " + pod.Finalizers[0] + " and why they do not",
				fmt.Sprintf(`if they never will: kubectl patch pod %s -n %s --type merge -p '{"metadata":{"finalizers":null}}'`, pod.Name, pod.Namespace),
			},
			stays: true,
		}}
	}
	on := pod.Spec.NodeName
	why := node.trouble(on)
	if why == "" {
		why = fmt.Sprintf("node %s has not said that the pod stopped", on)
	}
	return []trouble{{
		what: since + "; " + why,
		advice: []string{
			fmt.Sprintf("see whether the node works: kubectl get node %s", on),
			fmt.Sprintf("once it is sure that the node runs the pod no more (it is off): kubectl delete pod %s -n %s --force --grace-period=0", pod.Name, pod.Namespace),
		},
		stays: true,
	}}
}

func failed(pod *corev1.Pod) trouble {
	words := []string{"it failed"}
	if pod.Status.Reason != "" {
		words = append(words, pod.Status.Reason+": "+pod.Status.Message)
	}
	container := ""
	for _, status := range statuses(pod) {
		if end := status.State.Terminated; end != nil && end.ExitCode != 0 {
			words = append(words, "container "+status.Name+" ended "+crashloop.Ending(end))
			container = status.Name
		}
	}
	t := trouble{what: strings.Join(words, "; ")}
	if container != "" {
		t.advice = append(t.advice, fmt.Sprintf("see why it ended: kubectl logs %s -c %s -n %s", pod.Name, container, pod.Namespace))
	}
	return t
}

// unscheduled is about a pod without a node; waits is false if it has one.
func unscheduled(pod *corev1.Pod, now time.Time) (list []trouble, waits bool) {
	if pod.Spec.NodeName != "" {
		return nil, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status == corev1.ConditionTrue {
			continue
		}
		if c.Reason == corev1.PodReasonSchedulingGated {
			return []trouble{{what: "no node is looked for while it has scheduling gates: " + c.Message,
				advice: []string{"find out who has to remove the gates: kubectl get pod " + pod.Name + " -n " + pod.Namespace + " -o jsonpath='{.spec.schedulingGates}'"},
				stays:  true}}, true
		}
		return []trouble{{what: fmt.Sprintf("no node takes it (%s): %s", c.Reason, c.Message),
			advice: []string{"make room on a node or add one, or let the template ask for less (resources, nodeSelector, affinity, tolerations)",
				"kubectl describe pod " + pod.Name + " -n " + pod.Namespace + " shows what it asks for"},
			stays: true}}, true
	}
	if now.Sub(pod.CreationTimestamp.Time) < slow {
		return nil, true
	}
	return []trouble{{what: "no scheduler has looked at it",
		advice: []string{fmt.Sprintf("see that the scheduler %q runs", cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName))}, stays: true}}, true
}

// Reasons for which the kubelet lets a container wait.
var (
	imageReasons = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"}
	startReasons = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CreatePodSandboxError", "PreCreateHookError",
		"PreStartHookError", "PostStartHookError"}
)

func containerTroubles(pod *corev1.Pod, now time.Time) []trouble {
	var list []trouble
	describe := "kubectl describe pod " + pod.Name + " -n " + pod.Namespace
	for _, status := range statuses(pod) {
		waiting := status.State.Waiting
		if waiting == nil || waiting.Reason == "CrashLoopBackOff" {
			list = append(list, crashes(pod, status, now)...)
			continue
		}
		name := "container " + status.Name
		switch {
		case slices.Contains(imageReasons, waiting.Reason):
			list = append(list, trouble{
				what:   fmt.Sprintf("%s: its image %s cannot be pulled (%s)%s", name, imageOf(pod, status), waiting.Reason, after(waiting.Message)),
				advice: []string{"correct the image where the pod comes from, or give the nodes access to its registry (imagePullSecrets)", describe}, stays: true,
			})
		case slices.Contains(startReasons, waiting.Reason):
			list = append(list, trouble{what: fmt.Sprintf("%s cannot be started (%s)%s", name, waiting.Reason, after(waiting.Message)), advice: []string{describe}, stays: true})
		}
	}
	return list
}

// crashes says that a container ends, also while it runs between two ends. Once may be
// chance; nobody but a person ends what happens again.
func crashes(pod *corev1.Pod, status corev1.ContainerStatus, now time.Time) []trouble {
	ends, ended := crashloop.Of(status)
	waits := status.State.Waiting != nil
	if !ended && !waits || ends.Running && ends.Unproven(now) == 0 {
		return nil
	}
	t := trouble{
		what:    fmt.Sprintf("container %s ends again and again (%d restarts)", status.Name, status.RestartCount),
		stays:   waits || ends.Times > 1,
		crashed: status.Name,
	}
	if ended {
		t.what = ends.String()
	}
	if ends.Running {
		t.what += "; it was started again " + ago(now, ends.Since)
	}
	logs := fmt.Sprintf("see why it ended: kubectl logs %s -c %s -n %s", pod.Name, status.Name, pod.Namespace)
	if status.State.Terminated == nil || status.RestartCount > 0 {
		logs += " --previous"
	}
	t.advice = []string{logs}
	return []trouble{t}
}

// notReady is about a pod that is on its way, and nothing is known to be wrong with it.
func notReady(pod *corev1.Pod, now time.Time) []trouble {
	for _, status := range pod.Status.InitContainerStatuses {
		if status.State.Running != nil && !status.Ready && status.Started == nil {
			return []trouble{{what: "its init container " + status.Name + " is running",
				advice: []string{fmt.Sprintf("kubectl logs %s -c %s -n %s shows what it does", pod.Name, status.Name, pod.Namespace)}}}
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		switch {
		case status.State.Running != nil && !status.Ready:
			return []trouble{{what: "container " + status.Name + " is running and not Ready: its probes have not succeeded",
				advice: []string{fmt.Sprintf("kubectl logs %s -c %s -n %s shows what it does", pod.Name, status.Name, pod.Namespace)}}}
		case status.State.Waiting != nil && now.Sub(pod.CreationTimestamp.Time) >= slow:
			return []trouble{{what: fmt.Sprintf("container %s is not started yet (%s): its volumes, network or image are being prepared",
				status.Name, status.State.Waiting.Reason)}}
		}
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if c := condition(pod, gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return []trouble{{what: fmt.Sprintf("its readiness gate %s is not met", gate.ConditionType)}}
		}
	}
	if len(pod.Status.ContainerStatuses) == 0 && now.Sub(pod.CreationTimestamp.Time) >= slow {
		return []trouble{{what: "node " + pod.Spec.NodeName + " has not started it yet"}}
	}
	return nil
}

func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

func imageOf(pod *corev1.Pod, status corev1.ContainerStatus) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == status.Name {
			return c.Image
		}
	}
	return status.Image
}

// after is a message to follow other words, or nothing.
func after(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

func isReady(pod *corev1.Pod) bool {
	c := condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
