// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/kinds"
)

// said holds that what a status says of pods is true of how they were made, or was at
// some time since the pass began, and that no more roll out at once than may.
func (w *agentWatcher) said(before, after *runtimes.AgentRuntime) {
	if !kinds.IsRolling(before) && kinds.IsRolling(after) {
		w.counted(after)
	}
	status := after.Status
	ready := apimeta.IsStatusConditionTrue(status.Conditions, runtimes.ConditionReady)
	complete := apimeta.IsStatusConditionTrue(status.Conditions, runtimes.ConditionRolloutComplete) &&
		!apimeta.IsStatusConditionFalse(status.Conditions, runtimes.ConditionConfigResolved)
	if !ready && !complete && status.ConfiguredPods == 0 {
		return
	}
	if status.Target == nil {
		w.run.fail(trueStatus, "%s says that AgentRuntime %s has pods, and not of what", w.run.writer, after.Name)
		return
	}
	seen := w.run.writer.seen
	if w.run.public != nil && w.wiped[status.Target.Name] > seen.sandboxes {
		return // what the record proves ends with the stamps, and the pass had not seen that
	}
	for _, obj := range w.all.statesSince(w.sandboxes, "sandboxes", status.Target.Name, seen.sandboxes) {
		s := asSandbox(obj)
		if s == nil {
			continue
		}
		for _, pods := range w.podsSince(s.UID, seen.pods) {
			if w.holds(s, pods, status, ready || complete, ready) {
				return
			}
		}
	}
	w.run.fail(trueStatus, "%s says of AgentRuntime %s: Ready is %v, the rollout is complete: %v, %d pods are configured; of %s that was so at no time since the pass began",
		w.run.writer, after.Name, ready, complete, status.ConfiguredPods, status.Target.Name)
}

// holds reports whether a status is true of a Sandbox with such pods.
func (w *agentWatcher) holds(s *agents.Sandbox, pods []*corev1.Pod, status runtimes.AgentRuntimeStatus, complete, ready bool) bool {
	var configured int32
	old, serves := false, false
	for _, p := range pods {
		same := w.origins[p.UID].stamps == stampsOf(s)
		old = old || !isFinished(p) && !same
		if isLive(p) && w.origins[p.UID].stamps.ConfigHash == status.AppliedConfigHash {
			configured++
		}
		serves = serves || isLive(p) && same && isReady(p)
	}
	switch {
	case configured < status.ConfiguredPods:
		return false
	case complete && (old || stampsOf(s).ConfigHash != status.AppliedConfigHash):
		return false
	default:
		return !ready || serves || !s.Running()
	}
}

// counted holds that no more AgentRuntimes roll out than may.
func (w *agentWatcher) counted(a *runtimes.AgentRuntime) {
	limit := w.run.world.agents.limit
	if limit == 0 || w.all.overlap.on {
		return
	}
	var rolling []string
	for _, obj := range w.run.server.peek("agentruntimes") {
		if kinds.IsRolling(obj.(*runtimes.AgentRuntime)) {
			rolling = append(rolling, obj.GetName())
		}
	}
	if len(rolling) > limit {
		w.run.fail(fewAtOnce, "%s begins with %s, and now %v roll out, of which there may be %d", w.run.writer, a.Name, rolling, limit)
	}
}

// share finds the AgentRuntimes that have a target which another one names.
func (w *agentWatcher) share() {
	all := w.run.server.peek("agentruntimes")
	for _, obj := range all {
		a := obj.(*runtimes.AgentRuntime)
		had := a.Spec.TargetRef.Name
		if a.Status.Target != nil {
			had = a.Status.Target.Name
		}
		w.shared[a.UID] = w.shared[a.UID] || slices.ContainsFunc(all, func(o client.Object) bool {
			return o.GetUID() != a.UID && o.(*runtimes.AgentRuntime).Spec.TargetRef.Name == had
		})
	}
}
