// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/crashloop"
	"github.com/berthdev/berth/internal/launch"
	"github.com/berthdev/berth/internal/workload"
)

// agent is an agent as the cluster shows it.
type agent struct {
	*api.AgentRuntime
	target workload.Target
	// workload is nil if there is none, or it cannot be read.
	workload client.Object
	// pods are the workload's, if they were read.
	pods []*corev1.Pod
	read bool
	// now is when it was seen.
	now time.Time
}

func newWorkload(kind string) (client.Object, client.ObjectList) {
	switch kind {
	case workload.Deployment:
		return &appsv1.Deployment{}, &appsv1.DeploymentList{}
	case workload.StatefulSet:
		return &appsv1.StatefulSet{}, &appsv1.StatefulSetList{}
	default:
		return &agents.Sandbox{}, &agents.SandboxList{}
	}
}

// workloadOf reads an agent's workload. It is nil if there is none.
func (p *program) workloadOf(ctx context.Context, c *cluster, t workload.Target) (client.Object, error) {
	obj, _ := newWorkload(t.Kind)
	err := c.get(ctx, t.Name, obj)
	if apierrors.IsNotFound(err) && !notServed(err) {
		return nil, nil
	}
	if err != nil {
		return nil, p.explainAgents(err)
	}
	return obj, nil
}

// needWorkload reads an agent and its workload, which has to be there.
func (p *program) needWorkload(ctx context.Context, c *cluster, name string) (agent, error) {
	a, err := p.runtimeOf(ctx, c, name)
	if err != nil {
		return agent{}, err
	}
	t, err := p.targetOf(a)
	if err != nil {
		return agent{}, err
	}
	w, err := p.workloadOf(ctx, c, t)
	if err == nil && w == nil {
		err = &problem{cause: fmt.Errorf("agent %s has no workload: there is no %s in namespace %s", name, t, c.namespace),
			next: []string{p.command("agents rm", name) + " removes what is left of the agent", p.command("why", "agentruntime/"+name) + " says what its controller makes of it"}}
	}
	return agent{AgentRuntime: a, target: t, workload: w}, err
}

// podsBelow lists the pods that a workload's are among, with the ReplicaSets that own a Deployment's.
func podsBelow(w client.Object) []query {
	list := func(of func() client.ObjectList, selector client.ListOption) query {
		return query{list: of, options: []client.ListOption{client.InNamespace(w.GetNamespace()), selector}, optional: true}
	}
	pods := func() client.ObjectList { return &corev1.PodList{} }
	selected := func(s *metav1.LabelSelector) client.ListOption {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			return client.MatchingLabels{}
		}
		return client.MatchingLabelsSelector{Selector: selector}
	}
	switch w := w.(type) {
	case *appsv1.Deployment:
		s := selected(w.Spec.Selector)
		return []query{list(pods, s), list(func() client.ObjectList { return &appsv1.ReplicaSetList{} }, s)}
	case *appsv1.StatefulSet:
		return []query{list(pods, selected(w.Spec.Selector))}
	default:
		return []query{list(pods, client.MatchingLabels{agents.LabelSandboxNameHash: agents.NameHash(w.GetName())})}
	}
}

// podsAmong are those of the objects that podsBelow finds which are the workload's, oldest first. What
// proves that is the owners' UIDs.
func podsAmong(w client.Object, all []client.Object) []*corev1.Pod {
	owners := map[types.UID]bool{w.GetUID(): true}
	for _, set := range typed[*appsv1.ReplicaSet](all) {
		if metav1.IsControlledBy(set, w) {
			owners[set.UID] = true
		}
	}
	var pods []*corev1.Pod
	for _, pod := range typed[*corev1.Pod](all) {
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && owners[ref.UID] {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return pods
}

// podsOfWorkload lists a workload's pods.
func (c *cluster) podsOfWorkload(ctx context.Context, w client.Object) ([]*corev1.Pod, error) {
	queries := podsBelow(w)
	for i := range queries {
		queries[i].optional = false
	}
	all, err := c.read(ctx, queries)
	return podsAmong(w, slices.Concat(all...)), err
}

// judgeAgent says whether an agent runs with its configuration, what it waits for, or why it never will.
func judgeAgent(a agent) outcome {
	runtime, running, trouble := judgeRuntime(a), judgeWorkload(a.workload), troubleOf(a.pods)
	if runtime.reason == api.ReasonRollingOut || runtime.reason == api.ReasonRolloutPending {
		trouble.failed = false // it may be a pod's that is about to be replaced
	}
	switch {
	case runtime.failed:
		return runtime
	case a.workload != nil && launch.Suspended(a.workload):
		return outcome{failed: true, reason: stateSuspended, message: "its " + a.target.Kind + " should have no pods", next: "resume it"}
	case running.failed:
		return running
	case trouble.failed:
		return trouble
	case runtime.ready && running.ready && a.hasPods():
		return a.steady(runtime)
	case trouble.reason != "":
		return trouble
	case runtime.ready && running.ready:
		return outcome{reason: api.ReasonPodsNotReady, message: "its pods are not ready, or its controller has not seen them yet"}
	case !running.ready && (runtime.ready || runtime.reason == ""):
		return running
	}
	return runtime
}

// hasPods says whether as many pods are ready as should be. Statuses may be of the time before it was started,
// or before a pod went.
func (a agent) hasPods() bool {
	if a.Status.Pods == nil || a.Status.Pods.Ready == 0 {
		return false
	}
	if !a.read {
		return true
	}
	ready := int32(0)
	for _, pod := range a.pods {
		if pod.DeletionTimestamp == nil && isReadyPod(pod) {
			ready++
		}
	}
	return ready >= launch.Desired(a.workload)
}

// steady is the outcome for an agent that is Ready, unless that may be for a moment only: a container that
// ends again and again is Ready between its ends, and one without a probe is as soon as it has started.
func (a agent) steady(ready outcome) outcome {
	for _, pod := range a.pods {
		probed := map[string]bool{}
		for i := range pod.Spec.Containers {
			probed[pod.Spec.Containers[i].Name] = pod.Spec.Containers[i].ReadinessProbe != nil
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			ends, ended := crashloop.Of(status)
			if !ended {
				if again := crashloop.Starting(status, probed[status.Name], a.now); again > 0 {
					return outcome{reason: "Started", message: fmt.Sprintf("container %s of pod %s has just started", status.Name, pod.Name), again: again}
				}
				continue
			}
			if again := ends.Unproven(a.now); again > 0 {
				return outcome{reason: "Restarted", message: fmt.Sprintf("%s, in pod %s; it runs again, and has to show that it goes on", ends, pod.Name), again: again}
			}
		}
	}
	return ready
}

// troubleOf is what the first pod waits for that waits for ever, or else the first that waits.
func troubleOf(pods []*corev1.Pod) outcome {
	var first outcome
	for _, pod := range pods {
		trouble := podTrouble(pod)
		if trouble.failed {
			return trouble
		}
		if first.reason == "" {
			first = trouble
		}
	}
	return first
}

func isReadyPod(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// judgeRuntime says what the AgentRuntime tells, of which a workload without pods is ready too.
func judgeRuntime(a agent) outcome {
	ready := meta.FindStatusCondition(a.Status.Conditions, api.ConditionReady)
	switch {
	case a.DeletionTimestamp != nil:
		return outcome{failed: true, reason: stateDeleting, message: "it is being deleted", next: "run it again once it is gone"}
	case ready == nil, ready.ObservedGeneration < a.Generation:
		return outcome{}
	}
	seen := outcome{ready: ready.Status == metav1.ConditionTrue, reason: ready.Reason, message: ready.Message}
	switch ready.Reason {
	case api.ReasonTargetNotFound:
		seen.outdated = a.workload != nil && a.workload.GetDeletionTimestamp() == nil
	case api.ReasonTargetResolveError:
		seen.failed, seen.next = true, "correct spec.targetRef: kubectl edit agentruntime "+a.Name+" -n "+a.Namespace
	case api.ReasonTargetTaken:
		seen.failed, seen.next = true, "delete one of the two AgentRuntimes, or let it name another workload"
	case api.ReasonOwnedByWarmPool:
		seen.failed, seen.next = true, "claim a Sandbox from the pool, and name that"
	case api.ReasonRolloutStalled:
		seen.failed, seen.next = true, "see why its pods do not come up"
	case api.ReasonConfigApplyError:
		if meta.IsStatusConditionTrue(a.Status.Conditions, api.ConditionConfigConflict) {
			seen.failed, seen.next = true, "let only one of the two set what the message names"
		}
	}
	return seen
}

// judgeWorkload says whether a workload has the pods that it should have, made from what it says now.
func judgeWorkload(obj client.Object) outcome {
	waits := func(kind string, status ...int32) outcome {
		return outcome{reason: api.ReasonPodsNotReady, message: fmt.Sprintf("%s: %d of %d pods are ready", kind, slices.Min(status), launch.Desired(obj))}
	}
	switch w := obj.(type) {
	case *agents.Sandbox:
		return judgeResumed(w)
	case *appsv1.Deployment:
		s, n := w.Status, launch.Desired(w)
		if s.ObservedGeneration < w.Generation || s.UpdatedReplicas < n || s.AvailableReplicas < n || s.Replicas > n {
			return waits(workload.Deployment, s.UpdatedReplicas, s.AvailableReplicas)
		}
	case *appsv1.StatefulSet:
		s, n := w.Status, launch.Desired(w)
		if s.ObservedGeneration < w.Generation || s.UpdatedReplicas < n || s.ReadyReplicas < n || s.Replicas > n {
			return waits(workload.StatefulSet, s.UpdatedReplicas, s.ReadyReplicas)
		}
	default:
		return outcome{}
	}
	return outcome{ready: true}
}

// crashesForgiven is how often a container may be started again before the agent counts as failed: some
// wait for others so.
const crashesForgiven = 3

// podTrouble says what a pod's containers wait for, and whether that never ends.
func podTrouble(pod *corev1.Pod) outcome {
	if pod.DeletionTimestamp != nil {
		return outcome{reason: "PodTerminating", message: fmt.Sprintf("pod %s is terminating", pod.Name)}
	}
	if why := unscheduled(pod); why != "" {
		return outcome{reason: corev1.PodReasonUnschedulable, message: fmt.Sprintf("pod %s has no node%s", pod.Name, why)}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if seen := crashed(pod, status); seen.reason != "" {
			return seen
		}
		waiting := status.State.Waiting
		if waiting == nil || waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing" {
			continue
		}
		seen := outcome{reason: waiting.Reason, message: fmt.Sprintf("container %s of pod %s: %s", status.Name, pod.Name, cmp.Or(waiting.Message, "no more is known"))}
		switch {
		case waiting.Reason == "CreateContainerConfigError" && runsAsRoot(waiting.Message):
			seen.failed = true
			seen.next = "run it with --run-as-user 1000, or another number of a user that the image works with; or correct USER in the image: a number that is not 0"
		case waiting.Reason == "InvalidImageName", waiting.Reason == "ErrImageNeverPull":
			seen.failed, seen.next = true, "run it with another --image"
		}
		return seen
	}
	return outcome{}
}

// crashed is what to say of a container that has ended and does not run, if it has.
func crashed(pod *corev1.Pod, status corev1.ContainerStatus) outcome {
	ends, ended := crashloop.Of(status)
	waiting := status.State.Waiting
	if !ended && waiting == nil || ends.Running || waiting != nil && waiting.Reason != reasonBackOff {
		return outcome{}
	}
	what := fmt.Sprintf("container %s ends again and again", status.Name)
	if ended {
		what = ends.String()
	}
	return outcome{
		failed: status.RestartCount >= crashesForgiven, reason: reasonBackOff, message: what + ", in pod " + pod.Name,
		pod: pod.Name, container: status.Name,
		next: fmt.Sprintf("see why it ended: kubectl logs %s -c %s -n %s --previous", pod.Name, status.Name, pod.Namespace),
	}
}

// reasonBackOff is the kubelet's word for the pause before it starts a container again.
const reasonBackOff = "CrashLoopBackOff"

// runsAsRoot says whether the kubelet refuses a container because it would run as root, or because that
// cannot be known. Its messages are "container has runAsNonRoot and image will run as root" and "... and
// image has non-numeric user (NAME), cannot verify user is non-root".
func runsAsRoot(message string) bool {
	return strings.Contains(message, "runAsNonRoot") || strings.Contains(message, "non-root")
}

// agentState is an agent's state in a listing.
func agentState(a agent) stateOf {
	seen, ready := judgeRuntime(a), readyCondition(a.Status.Conditions)
	out := stateOf{reason: ready.Reason, message: ready.Message}
	switch {
	case a.DeletionTimestamp != nil:
		out.state = stateDeleting
	case seen.failed, a.Status.Phase == api.PhaseError:
		out.state = stateFailed
	case a.workload != nil && launch.Suspended(a.workload):
		out.state = stateSuspended
	case seen.ready:
		out.state = stateReady
	case ready.Reason == "", ready.Reason == api.ReasonTargetNotFound:
		out.state = stateWaiting
	default:
		out.state = stateNotReady
	}
	return out
}
