// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// States of claims and sandboxes, in one word each.
const (
	stateReady     = "Ready"
	stateWaiting   = "Waiting"   // a claim that has no sandbox yet
	stateNotReady  = "NotReady"  // it has what it needs, and is not Ready yet or any more
	stateFailed    = "Failed"    // it does not become Ready unless somebody changes something
	stateLost      = "Lost"      // a claim whose sandbox is gone
	stateSuspended = "Suspended" // a sandbox that should not run, or its claim
	stateFinished  = "Finished"  // its pod has ended
	stateExpired   = "Expired"
	stateDeleting  = "Deleting"
)

// stateOf tells a state, and the reason and message of the condition that shows it.
type stateOf struct {
	state, reason, message string
}

func claimState(claim *extensions.SandboxClaim) stateOf {
	seen := judge(claim)
	ready := readyCondition(claim.Status.Conditions)
	if !seen.failed && claim.Status.Sandbox.Name != "" {
		seen.reason, seen.message = ready.Reason, ready.Message
	}
	out := stateOf{reason: seen.reason, message: seen.message}
	bound := claim.Status.Sandbox.Name != ""
	switch {
	case claim.DeletionTimestamp != nil:
		out.state = stateDeleting
	case seen.ready:
		out.state = stateReady
	case ready.Reason == extensions.ReasonClaimExpired, ready.Reason == agents.ReasonSandboxExpired:
		out.state = stateExpired
	case bound && ready.Reason == extensions.ReasonSandboxMissing:
		out.state = stateLost
	case bound && ready.Reason == agents.ReasonSandboxSuspended:
		out.state = stateSuspended
	case meta.IsStatusConditionTrue(claim.Status.Conditions, agents.ConditionFinished):
		out.state = stateFinished
	case seen.failed:
		out.state = stateFailed
	case bound:
		out.state = stateNotReady
	default:
		out.state = stateWaiting
	}
	return out
}

func sandboxState(sandbox *agents.Sandbox) stateOf {
	ready := readyCondition(sandbox.Status.Conditions)
	out := stateOf{reason: ready.Reason, message: ready.Message}
	switch {
	case sandbox.DeletionTimestamp != nil:
		out.state = stateDeleting
	case ready.Status == metav1.ConditionTrue:
		out.state = stateReady
	case ready.Reason == agents.ReasonSandboxExpired:
		out.state = stateExpired
	case !sandbox.Running():
		out.state = stateSuspended
	case meta.IsStatusConditionTrue(sandbox.Status.Conditions, agents.ConditionFinished):
		out.state = stateFinished
	case ready.Reason == agents.ReasonMultiplePods:
		out.state = stateFailed
	default:
		out.state = stateNotReady
	}
	return out
}

// readyCondition is empty where there is none.
func readyCondition(conditions []metav1.Condition) metav1.Condition {
	if ready := meta.FindStatusCondition(conditions, agents.ConditionReady); ready != nil {
		return *ready
	}
	return metav1.Condition{}
}
