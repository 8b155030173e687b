// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// expiry is when the claim ends: at its shutdownTime, or ttlSecondsAfterFinished after
// its Sandbox finished, whichever comes first. It is zero for a claim that does not
// end by itself.
func expiry(claim *extensions.SandboxClaim) time.Time {
	lifecycle := claim.Spec.Lifecycle
	if lifecycle == nil {
		return time.Time{}
	}
	var at time.Time
	if lifecycle.ShutdownTime != nil {
		at = lifecycle.ShutdownTime.Time
	}
	finished := apimeta.FindStatusCondition(claim.Status.Conditions, agents.ConditionFinished)
	if lifecycle.TTLSecondsAfterFinished != nil && finished != nil {
		ttl := time.Duration(*lifecycle.TTLSecondsAfterFinished) * time.Second
		at = earliest(at, finished.LastTransitionTime.Add(ttl))
	}
	return at
}

func isExpired(claim *extensions.SandboxClaim, now time.Time) bool {
	at := expiry(claim)
	return !at.IsZero() && !now.Before(at)
}

// bindDeadline is when an unbound claim stops waiting, or zero. A claim that was bound,
// and lost its Sandbox after that, has the whole time anew to get another.
func bindDeadline(claim *extensions.SandboxClaim) time.Time {
	if claim.Spec.Lifecycle == nil || claim.Spec.Lifecycle.BindDeadlineSeconds == nil {
		return time.Time{}
	}
	allowed := time.Duration(*claim.Spec.Lifecycle.BindDeadlineSeconds) * time.Second
	deadline := claim.CreationTimestamp.Add(allowed)
	bound := apimeta.FindStatusCondition(claim.Status.Conditions, extensions.ConditionBound)
	if bound != nil && bound.Status == metav1.ConditionFalse && bound.Reason != extensions.ReasonBindDeadlineExceeded &&
		bound.LastTransitionTime.After(deadline) {
		return bound.LastTransitionTime.Add(allowed)
	}
	return deadline
}

func bindDeadlinePassed(claim *extensions.SandboxClaim, now time.Time) bool {
	at := bindDeadline(claim)
	return claim.Status.Sandbox.Name == "" && !at.IsZero() && !now.Before(at)
}

// alarm is the next moment at which the clock alone changes what is to be done.
func alarm(claim *extensions.SandboxClaim, now time.Time) time.Time {
	var next time.Time
	if at := expiry(claim); at.After(now) {
		next = at
	}
	if at := bindDeadline(claim); at.After(now) && claim.Status.Sandbox.Name == "" {
		next = earliest(next, at)
	}
	return next
}

// earliest returns the earlier of two times, of which zero stands for never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// decideExpired ends a claim: it says so first, then does what the policy says.
func decideExpired(seen observed, now time.Time) step {
	claim := seen.Claim
	ready := apimeta.FindStatusCondition(claim.Status.Conditions, agents.ConditionReady)
	if ready == nil || ready.Reason != extensions.ReasonClaimExpired {
		return report(seen, now, expired(claim, extensions.MessageClaimExpired, claim.Status.Sandbox))
	}
	switch policy := claim.ShutdownPolicy(); policy {
	case extensions.ClaimShutdownDelete, extensions.ClaimShutdownDeleteForeground:
		return deleteClaim{policy: policy}
	}
	for _, s := range seen.Mine {
		if s.DeletionTimestamp == nil {
			return deleteSandbox{sandbox: s, why: "the claim has expired"}
		}
	}
	if len(seen.Undecided) > 0 && seen.Refused == nil && seen.Barred == nil {
		return repeat(seen.Undecided[0]) // what may still land has to be known to be deleted
	}
	// What it was given and does not control any more is not its own to delete.
	if named := seen.Named; named != nil && isBoundTo(claim, named) && !control.IsControlledBy(named, claim.UID) {
		return report(seen, now, expired(claim, expiredSkipped(claim, named), claim.Status.Sandbox))
	}
	if len(seen.Mine) > 0 || len(seen.Undecided) > 0 {
		return report(seen, now, expired(claim, ready.Message, claim.Status.Sandbox)) // not gone yet
	}
	return report(seen, now, expired(claim, ready.Message, extensions.ClaimedSandbox{}))
}

func expiredEvent(claim *extensions.SandboxClaim) []event {
	events := []event{{corev1.EventTypeNormal, extensions.ReasonClaimExpired, "Claim expired", extensions.NoteClaimExpired}}
	if policy := claim.ShutdownPolicy(); policy != extensions.ClaimShutdownRetain {
		events = append(events, event{corev1.EventTypeNormal, extensions.ReasonClaimExpired, "Deleting", deletingNote(policy)})
	}
	return events
}
