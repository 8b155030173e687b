// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

// step is the one thing to do next. Its String says it in plain words.
type step interface {
	fmt.Stringer
	// leavesQueue reports whether the claim no longer waits for a pool's member.
	leavesQueue() bool
}

// queued and unqueued say whether a step keeps the claim's place in its pool's queue.
type (
	queued   struct{}
	unqueued struct{}
)

func (queued) leavesQueue() bool   { return false }
func (unqueued) leavesQueue() bool { return true }

// adopt makes a pool's member the claim's.
type adopt struct {
	queued
	member *agents.Sandbox
}

// createPolicy makes the template's NetworkPolicy, which has to be there before the
// first Sandbox is.
type createPolicy struct {
	unqueued
	policy *networkingv1.NetworkPolicy
}

// deletePolicy deletes the NetworkPolicy that a former version made for the claim.
type deletePolicy struct {
	unqueued
	policy *networkingv1.NetworkPolicy
}

// create makes a Sandbox for the claim.
type create struct {
	unqueued
	sandbox *agents.Sandbox
}

// patchSandbox writes the claim's additionalPodMetadata to its Sandbox.
type patchSandbox struct {
	unqueued
	sandbox *agents.Sandbox
	patch   consistent.Patch
}

// deleteSandbox deletes a Sandbox of the claim.
type deleteSandbox struct {
	unqueued
	sandbox *agents.Sandbox
	why     string
}

// deleteClaim deletes the claim itself.
type deleteClaim struct {
	unqueued
	policy extensions.ClaimShutdownPolicy
}

// annotate writes to the claim when it was seen and Ready.
type annotate struct {
	unqueued
	patch consistent.Patch
}

// writeStatus writes the claim's status and then records events.
type writeStatus struct {
	status extensions.SandboxClaimStatus
	events []event
	waits  bool
}

// rest ends the pass until something changes, or until the given time.
type rest struct {
	until time.Time
	waits bool
}

// event is something that happened to the claim.
type event struct{ kind, reason, action, note string }

func (s writeStatus) leavesQueue() bool { return !s.waits }
func (s rest) leavesQueue() bool        { return !s.waits }

func (s adopt) String() string { return fmt.Sprintf("adopt Sandbox %q from its pool", s.member.Name) }

func (s createPolicy) String() string {
	return fmt.Sprintf("create NetworkPolicy %q before the first Sandbox of the template", s.policy.Name)
}

func (s deletePolicy) String() string {
	return fmt.Sprintf("delete NetworkPolicy %q of a former version: the template's is in force", s.policy.Name)
}

func (s create) String() string {
	return fmt.Sprintf("create Sandbox %q for the claim", s.sandbox.Name)
}

func (s patchSandbox) String() string {
	return fmt.Sprintf("put the claim's additionalPodMetadata into Sandbox %q", s.sandbox.Name)
}

func (s deleteSandbox) String() string {
	return fmt.Sprintf("delete Sandbox %q: %s", s.sandbox.Name, s.why)
}

func (s deleteClaim) String() string {
	return fmt.Sprintf("delete the claim, which has expired (shutdownPolicy %s)", s.policy)
}

func (s annotate) String() string { return "write to the claim when it was seen and when it was Ready" }

func (s writeStatus) String() string { return "write the claim's status" }

func (s rest) String() string {
	if s.until.IsZero() {
		return "wait for a change"
	}
	return "wait for a change, or until " + s.until.UTC().Format(time.RFC3339)
}

func isCreate(s step) bool {
	switch s.(type) {
	case create, createPolicy:
		return true
	default:
		return false
	}
}

// isGain reports whether a step brings the claim nearer to its Sandbox without making
// one.
func isGain(s step) bool {
	switch s.(type) {
	case adopt, patchSandbox:
		return true
	default:
		return false
	}
}
