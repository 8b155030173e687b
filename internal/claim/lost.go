// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// decideLost handles a claim whose Sandbox is gone, which a live read proved (R6).
// Whoever used it has lost its state, so it is not silently exchanged for another,
// unless the claim asks for that or the Sandbox had never been Ready.
func decideLost(seen observed, now time.Time) step {
	claim := seen.Claim
	if claim.ReplacesLostSandbox() || !wasReady(claim) {
		return report(seen, now, released(claim))
	}
	return report(seen, now, lost(claim))
}

// wasReady reports whether the claim's Sandbox has been Ready since it was bound. A
// member of a pool was when it was adopted; of one made for the claim, the Bound
// condition remembers it.
func wasReady(claim *extensions.SandboxClaim) bool {
	bound := apimeta.FindStatusCondition(claim.Status.Conditions, extensions.ConditionBound)
	return bound == nil || bound.Reason != extensions.ReasonCreated
}
