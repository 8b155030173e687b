// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/template"
)

// decide says what to do next for a claim.
func decide(seen observed, now time.Time) step {
	claim := seen.Claim
	if claim.DeletionTimestamp != nil {
		return rest{} // what is the claim's goes with it, by garbage collection
	}
	if isExpired(claim, now) {
		return decideExpired(seen, now)
	}
	if problem := invalidMetadata(claim, seen.LabelDomains); problem != "" {
		return report(seen, now, userError(claim, extensions.ReasonInvalidMetadata, problem))
	}
	if claim.Status.Sandbox.Name != "" {
		return decideBound(seen, now)
	}
	return decideUnbound(seen, now)
}

// wantsSandbox reports whether decide needs to know where a Sandbox could come from.
func wantsSandbox(seen observed, now time.Time) bool {
	claim := seen.Claim
	return !isExpired(claim, now) &&
		invalidMetadata(claim, seen.LabelDomains) == "" &&
		!bindDeadlinePassed(claim, now) &&
		winner(seen.Mine) == nil &&
		len(seen.Undecided) == 0
}

// decideBound keeps a bound claim's status, metadata and Sandboxes in order.
func decideBound(seen observed, now time.Time) step {
	claim := seen.Claim
	switch {
	case seen.Named == nil, !isBoundTo(claim, seen.Named):
		return decideLost(seen, now)
	case !control.IsControlledBy(seen.Named, claim.UID):
		return report(seen, now, notControlled(claim, seen.Named))
	}
	// The status names the winner, in a reply of the server: the rest may go.
	for _, s := range seen.Mine {
		if s.UID != seen.Named.UID && s.DeletionTimestamp == nil {
			return deleteSandbox{sandbox: s, why: "the claim is bound to Sandbox " + seen.Named.Name}
		}
	}
	if seen.OwnPolicy != nil && seen.Named.Labels[agents.LabelTemplateRefHash] != "" { // the template's policy covers it
		return deletePolicy{policy: seen.OwnPolicy}
	}
	if patch, changed := metadataPatch(claim, seen.Named); changed && seen.Named.DeletionTimestamp == nil {
		return putMetadata(seen, now, patchSandbox{sandbox: seen.Named, patch: patch})
	}
	next := report(seen, now, bound(claim, seen.Named))
	if _, told := next.(rest); told && seen.AnnotateTimes {
		if patch, changed := timesPatch(claim, seen.Times); changed {
			return annotate{patch: patch}
		}
	}
	return next
}

// decideUnbound brings a claim to its Sandbox.
func decideUnbound(seen observed, now time.Time) step {
	claim := seen.Claim
	if own := winner(seen.Mine); own != nil {
		if patch, changed := metadataPatch(claim, own); changed {
			return putMetadata(seen, now, patchSandbox{sandbox: own, patch: patch})
		}
		return report(seen, now, bound(claim, own))
	}
	if len(seen.Undecided) > 0 {
		return decideUndecided(seen, now)
	}
	if bindDeadlinePassed(claim, now) {
		return report(seen, now, deadlineExceeded(claim))
	}
	if seen.Candidate != nil && seen.Barred != nil {
		return report(seen, now, barred(seen.Candidate.Name, seen.Barred))
	}
	if seen.Candidate != nil {
		return adopt{member: seen.Candidate}
	}
	if seen.Wait {
		return report(seen, now, waitingForMember(seen))
	}
	return decideCold(seen, now)
}

// decideCold makes a Sandbox for a claim that no pool can serve at once. Where that
// cannot be done, the claim waits for a member after all.
func decideCold(seen observed, now time.Time) step {
	claim, from := seen.Claim, seen.Source
	switch {
	case from.Pool == nil && from.PoolName != "":
		return report(seen, now, userError(claim, extensions.ReasonWarmPoolNotFound, poolNotFound(from.PoolName)))
	case from.Template == nil:
		return report(seen, now, userError(claim, extensions.ReasonTemplateNotFound, templateNotFound(from.TemplateName)).unlessServed(seen))
	}
	sandbox, problem := render(claim, from.Template)
	switch {
	case problem != nil:
		return report(seen, now, userError(claim, problem.reason, problem.message))
	case seen.Refused != nil:
		return report(seen, now, refused(sandbox.Name, seen.Refused).unlessServed(seen))
	case terminatingAmong(seen.Mine, sandbox.Name):
		return report(seen, now, creating(seen, "waiting for the former Sandbox of this name to be gone"))
	case seen.Occupant != nil && seen.Occupant.DeletionTimestamp != nil:
		return report(seen, now, creating(seen, "waiting for another Sandbox of this name to be gone"))
	case seen.Occupant != nil:
		return report(seen, now, nameTaken(claim, seen.Occupant).unlessServed(seen))
	}
	state := template.StateOf(seen.Policy, from.Template)
	if state == template.PolicyMissing {
		return createPolicy{policy: template.Policy(from.Template)}
	}
	if obstacle := policyObstacle(state, from.Template); obstacle != "" {
		return report(seen, now, creating(seen, obstacle))
	}
	return create{sandbox: sandbox}
}

// putMetadata puts the claim's metadata into its Sandbox. A server that takes none of it
// is not asked twice in a pass, and the claim is not Ready without it.
func putMetadata(seen observed, now time.Time, patch patchSandbox) step {
	if seen.Barred == nil {
		return patch
	}
	reason, message := extensions.ReasonInvalidMetadata, metadataRefused(patch.sandbox, seen.Barred)
	if apierrors.IsInternalError(seen.Barred) { // not the claim's fault
		reason, message = agents.ReasonReconcilerError, fmt.Sprintf(agents.MessageErrorFormat, message)
	}
	return report(seen, now, userError(seen.Claim, reason, message))
}

// winner is the Sandbox an unbound claim is bound to: the oldest that lives.
func winner(mine []*agents.Sandbox) *agents.Sandbox {
	for _, s := range mine {
		if s.DeletionTimestamp == nil {
			return s
		}
	}
	return nil
}

func terminatingAmong(mine []*agents.Sandbox, name string) bool {
	for _, s := range mine {
		if s.Name == name && s.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// decideUndecided does an undecided write once more: the same candidate, the same name. As
// long as it is undecided there is no second one. A server that fails twice in a pass is
// asked again in a later one.
func decideUndecided(seen observed, now time.Time) step {
	first := seen.Undecided[0]
	switch {
	case first.Verb == consistent.VerbCreate && seen.Refused != nil:
		return report(seen, now, refused(first.Intended.Name, seen.Refused))
	case first.Verb == consistent.VerbPatch && seen.Barred != nil:
		return report(seen, now, barred(first.Base.Name, seen.Barred))
	default:
		return repeat(first)
	}
}

func repeat(a consistent.Attempt[*agents.Sandbox]) step {
	if a.Verb == consistent.VerbCreate {
		return create{sandbox: a.Intended}
	}
	return adopt{member: a.Base}
}

// isBoundTo reports whether s is the Sandbox the claim was bound to. A binding made
// by a controller that does not record UIDs is by name.
func isBoundTo(claim *extensions.SandboxClaim, s *agents.Sandbox) bool {
	bound := claim.Status.Sandbox
	return s.Name == bound.Name && (bound.UID == "" || s.UID == bound.UID)
}
