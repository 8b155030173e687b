// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/workload"
)

// agentRuntime explains an AgentRuntime, its workload and its pods.
func (x *explainer) agentRuntime(ctx context.Context, key types.NamespacedName) (*Report, error) {
	a, ok, err := x.found.agents.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, x.missing(AgentRuntime, key, nil)
	}
	r := newReport(AgentRuntime, key)
	r.depends("agentruntime", a)
	r.Conditions = a.Status.Conditions
	e, err := x.agents.Explain(ctx, key)
	if err := r.tellOr(e.Explanation, err); err != nil {
		return nil, err
	}
	x.judgeAgentRuntime(r, a, e)
	if a.DeletionTimestamp != nil {
		x.leaving(r, a)
		return r, nil
	}
	if e.Workload == nil {
		return r, nil
	}
	r.about[e.Workload.UID] = strings.ToLower(e.Workload.Kind) + "/" + e.Workload.Name
	for _, p := range e.Workload.Pods {
		for _, pod := range x.found.whole {
			if pod.UID != p.UID {
				continue
			}
			r.depends("pod", pod)
			r.suffer("pod "+pod.Name, x.agentTroubles(ctx, key.Name, pod))
		}
	}
	if e.Workload.Kind == workload.Sandbox && e.Workload.Desired > 0 {
		// What keeps a Sandbox from having its pod, its own controller knows.
		part, err := x.sandbox(ctx, types.NamespacedName{Namespace: key.Namespace, Name: e.Workload.Name})
		if err != nil {
			return nil, err
		}
		if part.Verdict == Stuck {
			r.include(part)
		}
	}
	return r, nil
}

// agentTroubles are an agent's pod's, with what helps against an image that runs as root.
func (x *explainer) agentTroubles(ctx context.Context, agent string, pod *corev1.Pod) []trouble {
	list := podTroubles(pod, x.nodeOf(ctx, pod), x.options.Now)
	for i := range list {
		if container := list[i].crashed; container != "" && strings.HasSuffix(list[i].advice[0], " --previous") {
			list[i].advice[0] = "see why it ended: " + x.options.Command("agents logs", agent, "--pod", pod.Name, "-c", container, "--previous")
		}
		if strings.Contains(list[i].what, "runAsNonRoot") || strings.Contains(list[i].what, "non-root") {
			list[i].advice = append([]string{"give the pod template a securityContext.runAsUser that the image works with, such as 1000 " +
				"(berth agents run has --run-as-user), or correct USER in the image"}, list[i].advice...)
		}
	}
	return list
}

// leaving is about an AgentRuntime that is being deleted. Its own finalizer is taken off
// by the controller that is explained.
func (x *explainer) leaving(r *Report, a *api.AgentRuntime) {
	others := a.DeepCopy()
	others.Finalizers = nil
	for _, f := range a.Finalizers {
		if f != api.Finalizer {
			others.Finalizers = append(others.Finalizers, f)
		}
	}
	r.deletion(others, x.options.Now)
}

// judgeAgentRuntime says what Ready means.
func (x *explainer) judgeAgentRuntime(r *Report, a *api.AgentRuntime, e agentruntime.Explanation) {
	ready := r.condition(api.ConditionReady)
	r.Summary = "is not Ready (" + ready.Reason + "): " + oneLine(ready.Message)
	switch {
	case a.DeletionTimestamp != nil:
		r.Summary = "is being deleted"
		return
	case ready.Status == metav1.ConditionTrue && e.Workload != nil && e.Workload.Desired == 0:
		r.Summary = fmt.Sprintf("is configured, and %s is suspended: it should have no pods, and its next has the configuration", e.Workload.Target)
		r.advise("to start it: %s", x.options.Command("agents resume", a.Name))
	case ready.Status == metav1.ConditionTrue:
		r.Summary = "is Ready: " + oneLine(ready.Message)
	case ready.Reason == "":
		r.Summary = "has not been looked at yet"
		r.worsen(Underway)
	}
	x.judgeReason(r, a, e, ready)
}

// judgeReason says what a person can do about the reason why it is not Ready.
func (x *explainer) judgeReason(r *Report, a *api.AgentRuntime, e agentruntime.Explanation, ready metav1.Condition) {
	edit := fmt.Sprintf("kubectl edit agentruntime %s -n %s", a.Name, a.Namespace)
	switch ready.Reason {
	case api.ReasonTargetNotFound:
		r.worsen(Stuck)
		if strings.Contains(ready.Message, "does not serve its kind") {
			r.advise("install the definition of Sandboxes, and it goes on by itself; or name another workload: %s", edit)
			break
		}
		ref := a.Spec.TargetRef
		r.advise("create the %s %q in namespace %s, and it goes on; or correct spec.targetRef: %s", ref.Kind, ref.Name, a.Namespace, edit)
		r.advise("kubectl get sandboxes,deployments,statefulsets -n %s lists those there are", a.Namespace)
		r.advise("to remove what is left of the agent: %s", x.options.Command("agents rm", a.Name))
	case api.ReasonTargetResolveError:
		r.worsen(Stuck)
		r.advise("correct spec.targetRef: %s", edit)
	case api.ReasonTargetTaken:
		r.worsen(Stuck)
		if e.Holder != nil {
			r.Waits = append(r.Waits, "agentruntime/"+e.Holder.Name+" to give the workload up")
			r.advise("keep one of the two: delete this one (kubectl delete agentruntime %s -n %s), or the older, agentruntime/%s", a.Name, a.Namespace, e.Holder.Name)
		}
		r.advise("or let one of them name another workload: %s", edit)
	case api.ReasonOwnedByWarmPool:
		r.worsen(Underway)
		r.Waits = append(r.Waits, "a claim to take the Sandbox from its pool")
		r.advise("to configure a Sandbox of a pool, claim one, and name the one that the claim has got: %s", edit)
	case api.ReasonConfigHashError:
		r.worsen(Stuck)
		r.advise("see that the controller may read ConfigMaps (get, list, watch) in namespaces %s and %s; it tries again by itself", a.Namespace, x.operatorNamespace())
	case api.ReasonConfigApplyError:
		x.judgeConflict(r, a, e)
	case api.ReasonRolloutPaused:
		x.judgePaused(r, a, e)
	case api.ReasonRolloutPending:
		r.worsen(Underway)
		x.judgePending(r, a)
	case api.ReasonRollingOut, api.ReasonPodsNotReady:
		r.worsen(Underway)
	case api.ReasonRolloutStalled:
		r.worsen(Stuck)
		r.advise("see what keeps the pods from coming up; the rollout goes on by itself then")
	}
}

// judgeConflict is about writes that were refused or undone.
func (x *explainer) judgeConflict(r *Report, a *api.AgentRuntime, e agentruntime.Explanation) {
	r.worsen(Stuck)
	show := fmt.Sprintf("kubectl get %s %s -n %s -o yaml --show-managed-fields", strings.ToLower(a.Spec.TargetRef.Kind), a.Spec.TargetRef.Name, a.Namespace)
	switch conflict := r.condition(api.ConditionConfigConflict); conflict.Reason {
	case api.ReasonFieldConflict:
		r.Waits = append(r.Waits, "the other field manager to give up what the message names")
		r.advise("let only this controller set it: take it out of what the other field manager applies; %s shows who sets what", show)
	case api.ReasonStampsRemoved:
		r.Waits = append(r.Waits, "whoever removes the configuration to stop; it is written again after ever longer pauses, of an hour at most")
		r.advise("find out who removes %s from the pod template, such as a controller or a pipeline that writes the whole object: %s", api.AnnotationConfigHash, show)
		if e.Workload != nil && e.Workload.Kind == workload.Sandbox {
			r.advise("if the Sandbox belongs to a claim, its controller may be one that overwrites the template; let an AgentRuntime name a Sandbox that nobody else writes to")
		}
	default:
		r.advise("mend what the message says, such as an admission webhook that does not answer, a policy or a missing right; it is tried again by itself")
	}
}

// judgePaused is about pods that are outdated and stay.
func (x *explainer) judgePaused(r *Report, a *api.AgentRuntime, e agentruntime.Explanation) {
	r.worsen(Stuck)
	switch w := e.Workload; {
	case a.Paused():
		r.advise("to have the pods replaced: kubectl annotate agentruntime %s -n %s %s-", a.Name, a.Namespace, api.AnnotationPaused)
	case w == nil:
	case w.Kind == workload.Deployment:
		r.advise("to have the pods replaced: kubectl rollout resume deployment/%s -n %s", w.Name, w.Namespace)
	default:
		r.advise("to have a pod replaced, delete it: kubectl get pods -n %s lists them; or change the updateStrategy of statefulset/%s", w.Namespace, w.Name)
	}
}

// judgePending says whose pods are replaced first.
func (x *explainer) judgePending(r *Report, a *api.AgentRuntime) {
	var others []string
	for _, o := range x.found.agents.Peek(kinds.ByRolling, a.Namespace) {
		if o.UID != a.UID {
			others = append(others, "agentruntime/"+o.Name)
		}
	}
	if len(others) > 0 {
		r.Waits = append(r.Waits, "in this namespace, the pods of "+few(others)+" to be replaced first")
		r.advise("see why it takes those long: %s", x.options.Command("why", others[0]))
	}
	r.advise("more may be replaced at a time: the controller's --max-concurrent-restarts and --max-concurrent-restarts-in-cluster")
}
