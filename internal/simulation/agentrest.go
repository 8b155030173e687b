// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/workload"
)

// converged holds that after everything was left alone every workload runs what its
// AgentRuntime wants, or that one says why not, and that nothing is left of those gone.
func (w *agentWatcher) converged() {
	named := map[string]bool{}
	for _, obj := range w.run.server.peek("agentruntimes") {
		a := obj.(*runtimes.AgentRuntime)
		named[a.Spec.TargetRef.Name] = true
		w.runtimeAtRest(a)
	}
	for _, obj := range w.run.server.peek("sandboxes") {
		s := obj.(*agents.Sandbox)
		_, left := s.Annotations[runtimes.AnnotationRollout]
		owner := recordOn(s).Runtime
		// One that goes leaves what it put there to its heir, who may go before it has it.
		// One that cannot clean up says so in the end.
		if left && !named[s.Name] && !w.shared[owner] && !w.run.events.told[about{owner, runtimes.EventReleaseAbandoned}] {
			w.run.fail(nothingLeft, "Sandbox %s has the record of an AgentRuntime, and there is none", obj.GetName())
		}
	}
}

// runtimeAtRest: its workload has what it wants, or it says why not.
func (w *agentWatcher) runtimeAtRest(a *runtimes.AgentRuntime) {
	ready := apimeta.FindStatusCondition(a.Status.Conditions, runtimes.ConditionReady)
	if ready == nil || a.Status.ObservedGeneration != a.Generation {
		w.run.fail(runtimeSays, "AgentRuntime %s has no status of its present spec", a.Name)
		return
	}
	s := asSandbox(w.run.server.tables["sandboxes"].objects[key(a.Spec.TargetRef.Name)])
	fail := func(what string) {
		w.run.fail(runtimeTruth, "AgentRuntime %s: %s (%s: %s)", a.Name, what, ready.Reason, ready.Message)
	}
	expect := func(reason, what string) {
		if ready.Reason != reason {
			fail(what)
		}
	}
	switch {
	case w.hasElder(a):
		expect(runtimes.ReasonTargetTaken, "an older one has the same target")
	case s == nil:
		expect(runtimes.ReasonTargetNotFound, "its target does not exist")
	case control.ControllerOf(s, extensions.GroupName, extensions.SandboxWarmPoolKind) != nil:
		expect(runtimes.ReasonOwnedByWarmPool, "its target is in a warm pool")
	default:
		if what := w.targetAtRest(a, s, ready); what != "" {
			fail(what)
		}
	}
}

// hasElder reports whether an older AgentRuntime has the same target.
func (w *agentWatcher) hasElder(a *runtimes.AgentRuntime) bool {
	return slices.ContainsFunc(w.run.server.List("agentruntimes"), func(obj client.Object) bool {
		o := obj.(*runtimes.AgentRuntime)
		if o.UID == a.UID || o.Spec.TargetRef.Name != a.Spec.TargetRef.Name {
			return false
		}
		byTime := o.CreationTimestamp.Compare(a.CreationTimestamp.Time)
		return byTime < 0 || byTime == 0 && o.Name < a.Name
	})
}

// targetAtRest says what is wrong with the workload of an AgentRuntime, or with what that
// says of it.
func (w *agentWatcher) targetAtRest(a *runtimes.AgentRuntime, s *agents.Sandbox, ready *metav1.Condition) string {
	pod, current := w.runs(s, workload.Stamps{Type: string(a.Spec.Type), ConfigHash: w.desired(), MTLSMode: string(a.MTLS())})
	claims := ready.Status == metav1.ConditionTrue
	conflict := apimeta.FindStatusCondition(a.Status.Conditions, runtimes.ConditionConfigConflict)
	switch {
	case !current && claims:
		return "its target does not run what it should"
	case conflict != nil && conflict.Reason == runtimes.ReasonFieldConflict:
		if !w.contested[s.UID] {
			return "nobody else has a say"
		}
	case ready.Reason == runtimes.ReasonRolloutPaused:
		if !a.Paused() || pod == nil {
			return "nothing is paused"
		}
	case !current:
		return fmt.Sprintf("a restart was lost: the target has %v", stampsOf(s))
	case !claims && (pod == nil || isReady(pod)):
		return "its target runs what it should"
	}
	return ""
}

// runs returns the pod of a Sandbox, if it has one, and whether both have the stamps.
func (w *agentWatcher) runs(s *agents.Sandbox, want workload.Stamps) (found *corev1.Pod, current bool) {
	current = stampsOf(s) == want
	for _, obj := range w.run.server.peek("pods") {
		if pod := obj.(*corev1.Pod); control.IsControlledBy(pod, s.UID) {
			found = pod
			current = current && (isFinished(pod) || w.origins[pod.UID].stamps == want)
		}
	}
	return found, current
}
