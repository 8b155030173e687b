// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// sandbox explains a Sandbox, its pods and its volumes.
func (x *explainer) sandbox(ctx context.Context, key types.NamespacedName) (*Report, error) {
	return x.sandboxOf(ctx, key, "sandbox/"+key.Name)
}

// sandboxOf explains the Sandbox of what a person has named.
func (x *explainer) sandboxOf(ctx context.Context, key types.NamespacedName, named string) (*Report, error) {
	s, ok, err := x.found.sandboxes.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, x.missing(Sandbox, key, x.boundTo(key.Name))
	}
	r := newReport(Sandbox, key)
	r.depends("sandbox", s)
	r.Conditions = s.Status.Conditions
	if err := r.tellOr(x.sandboxes.Explain(ctx, key)); err != nil {
		return nil, err
	}
	pods := x.podsOf(s.UID)
	x.judgeSandbox(r, s, pods, named)
	r.deletion(s, x.options.Now)
	for _, pod := range pods {
		r.depends("pod", pod)
		r.suffer("pod "+pod.Name, podTroubles(pod, x.nodeOf(ctx, pod), x.options.Now))
	}
	if len(pods) > 1 && s.DeletionTimestamp == nil {
		r.advisePods(pods)
	}
	x.volumes(ctx, r, s)
	return r, nil
}

// judgeSandbox says what the conditions mean.
func (x *explainer) judgeSandbox(r *Report, s *agents.Sandbox, pods []*corev1.Pod, named string) {
	ready := r.condition(agents.ConditionReady)
	outdated := r.condition(agents.ConditionPodOutdated)
	r.Summary = "is not Ready (" + ready.Reason + "): " + oneLine(ready.Message)
	switch {
	case s.DeletionTimestamp != nil:
		r.Summary = "is being deleted"
		return
	case ready.Status == metav1.ConditionTrue && outdated.Status == metav1.ConditionTrue && outdated.Reason == agents.ReasonSpecChanged:
		r.Summary = "is Ready, and its pod is not what its podTemplate says now"
	case ready.Status == metav1.ConditionTrue:
		r.Summary = "is Ready"
	case ready.Reason == "":
		r.Summary = "has not been looked at yet"
		r.worsen(Underway)
	}
	switch ready.Reason {
	case agents.ReasonMultiplePods:
		r.worsen(Stuck)
	case agents.ReasonReconcilerError:
		r.worsen(Stuck)
		r.advise("mend what the message says; what a quota or a webhook refuses is tried again by itself, ever more rarely, and a change of the Sandbox makes it at once")
	case agents.ReasonPodFailed:
		if !s.ReplacesFailedPods() {
			r.worsen(Stuck)
			r.advise("to have another pod: %s", deletePod(s, pods))
			r.advise("to have failed pods replaced always, set spec.podFailureAction to Replace")
		}
	case agents.ReasonPodSucceeded:
		r.advise("to run it again: %s", deletePod(s, pods))
	case agents.ReasonSandboxSuspended:
		r.advise("to resume it: %s", x.options.Command("resume", named))
	case agents.ReasonSandboxExpired:
		r.advise(`to run it again, move its end: kubectl patch sandbox %s -n %s --type merge -p '{"spec":{"shutdownTime":null}}'`, s.Name, s.Namespace)
	}
	if len(livePods(pods)) == 1 {
		r.judgeDrift(s, outdated, deletePod(s, pods))
	}
}

// livePods are the names of the pods that are not terminating.
func livePods(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	return names
}

// deletePod is the command that deletes a Sandbox's one pod, by its name: labels do not
// prove whose a pod is.
func deletePod(s *agents.Sandbox, pods []*corev1.Pod) string {
	name := "NAME"
	if live := livePods(pods); len(live) == 1 {
		name = live[0]
	}
	return "kubectl delete pod " + name + " -n " + s.Namespace
}

// judgeDrift is about a pod that was made from an older podTemplate.
func (r *Report) judgeDrift(s *agents.Sandbox, outdated metav1.Condition, remedy string) {
	if outdated.Status != metav1.ConditionTrue {
		return
	}
	r.Sees = append(r.Sees, "Its pod was made from an older podTemplate: "+outdated.Message+".")
	if outdated.Reason != agents.ReasonSpecChanged || len(r.Next) > 0 && strings.HasPrefix(r.Next[len(r.Next)-1], "delete the pod") {
		return
	}
	switch control.ControllerOf(s, extensions.GroupName, extensions.SandboxWarmPoolKind) {
	case nil:
		r.worsen(Stuck)
		r.advise("to take the change over, losing what is in the pod and not on a volume: %s", remedy)
		r.advise("to have that done at every change: set spec.updateStrategy.type to Recreate")
	default:
		r.worsen(Underway) // its pool replaces it as its update strategy says
	}
}

// advisePods says how to get from several pods to one.
func (r *Report) advisePods(pods []*corev1.Pod) {
	if live := livePods(pods); len(live) > 1 {
		r.advise("find out which of the pods holds the work (%s), and delete the others: kubectl delete pod NAME -n %s", strings.Join(live, ", "), r.Namespace)
	}
}

// volumes says what is wrong with the Sandbox's PersistentVolumeClaims.
func (x *explainer) volumes(ctx context.Context, r *Report, s *agents.Sandbox) {
	for _, t := range s.Spec.VolumeClaimTemplates {
		name := agents.PersistentVolumeClaimName(t.Metadata.Name, s.Name)
		claim, ok, err := x.found.volumes.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: name})
		if err != nil || !ok {
			continue
		}
		r.depends("persistentvolumeclaim", claim)
		what := "PersistentVolumeClaim " + name
		describe := fmt.Sprintf("kubectl describe pvc %s -n %s", name, s.Namespace)
		switch {
		case claim.DeletionTimestamp != nil:
			r.suffer(what, []trouble{{what: "it is being deleted; finalizers: " + strings.Join(claim.Finalizers, ", "), advice: []string{describe}}})
		case claim.Status.Phase == corev1.ClaimPending:
			r.suffer(what, []trouble{{what: "it has no volume yet", advice: []string{describe + " shows what it waits for; it needs a storage class that works"}}})
		case claim.Status.Phase == corev1.ClaimLost:
			r.suffer(what, []trouble{{what: "its volume is lost", advice: []string{describe}, stays: true}})
		}
	}
}

// boundTo are the claims whose status names a Sandbox.
func (x *explainer) boundTo(sandbox string) []string {
	var users []string
	for _, claim := range x.found.claims.items {
		if claim.Status.Sandbox.Name == sandbox {
			users = append(users, "claim/"+claim.Name)
		}
	}
	return users
}
