// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// outcome is what is to be said on the claim.
type outcome struct {
	ready metav1.Condition
	// bound is left as it is if it is nil.
	bound *metav1.Condition
	// sandbox is left as it is if it is nil.
	sandbox *extensions.ClaimedSandbox
	// from is the Sandbox whose Finished condition is repeated.
	from *agents.Sandbox
	// conflicts are keys of the claim's metadata with somebody else's value.
	conflicts []string
	// events are recorded if the Ready reason or Bound status changes with this write.
	events []event
	// waits is true if a member of a pool is to come.
	waits bool
}

// report writes the outcome if the claim does not say it already, else rests.
func report(seen observed, now time.Time, o outcome) step {
	claim := seen.Claim
	status := *claim.Status.DeepCopy()
	set := func(c metav1.Condition) {
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = metav1.NewTime(now)
		}
		if c.Type != agents.ConditionFinished { // its generation is the Sandbox's
			c.ObservedGeneration = claim.Generation
		}
		c.Message = steady(status.Conditions, c.Type, c.Reason, control.Message(c.Message))
		apimeta.SetStatusCondition(&status.Conditions, c)
	}
	set(o.ready)
	if o.bound != nil {
		set(*o.bound)
	}
	if o.sandbox != nil {
		status.Sandbox = *o.sandbox
	}
	if o.from != nil {
		if finished := apimeta.FindStatusCondition(o.from.Status.Conditions, agents.ConditionFinished); finished != nil {
			set(*finished)
		} else {
			apimeta.RemoveStatusCondition(&status.Conditions, agents.ConditionFinished)
		}
	}
	if len(o.conflicts) > 0 {
		set(metav1.Condition{
			Type: extensions.ConditionMetadataConflict, Status: metav1.ConditionTrue, Reason: extensions.ReasonForeignValue,
			Message: "Another writer's value stands on " + strings.Join(o.conflicts, ", ") + "; remove it there, or the key from additionalPodMetadata",
		})
	} else {
		apimeta.RemoveStatusCondition(&status.Conditions, extensions.ConditionMetadataConflict)
	}
	slices.SortFunc(status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	if equality.Semantic.DeepEqual(status, claim.Status) {
		return rest{until: alarm(claim, now), waits: o.waits}
	}
	write := writeStatus{status: status, waits: o.waits}
	if transitioned(claim.Status.Conditions, status.Conditions) {
		write.events = o.events
	}
	return write
}

// transitioned reports whether the claim changed in a way worth an event.
func transitioned(before, after []metav1.Condition) bool {
	reason := func(conditions []metav1.Condition) string {
		if c := apimeta.FindStatusCondition(conditions, agents.ConditionReady); c != nil {
			return c.Reason
		}
		return ""
	}
	return reason(before) != reason(after) ||
		apimeta.IsStatusConditionTrue(before, extensions.ConditionBound) != apimeta.IsStatusConditionTrue(after, extensions.ConditionBound)
}

// bound says that s is the claim's, and repeats what s says of itself. Name, UID,
// IPs and Ready go into one write: clients read them together.
func bound(claim *extensions.SandboxClaim, s *agents.Sandbox) outcome {
	ready := readyOf(s)
	how := boundCondition(claim, s, ready.Status == metav1.ConditionTrue)
	happened := event{corev1.EventTypeNormal, extensions.EventSandboxProvisioned, "Provisioning", fmt.Sprintf(extensions.NoteSandboxProvisionedFormat, s.Name)}
	if how.Reason == extensions.ReasonAdopted {
		happened = event{corev1.EventTypeNormal, extensions.EventSandboxAdopted, "Adoption", fmt.Sprintf(extensions.NoteSandboxAdoptedFormat, s.Name)}
	}
	o := outcome{
		ready:     ready,
		bound:     &how,
		sandbox:   &extensions.ClaimedSandbox{Name: s.Name, UID: s.UID, PodIPs: s.Status.PodIPs},
		from:      s,
		conflicts: metadataConflicts(claim, s),
	}
	if !apimeta.IsStatusConditionTrue(claim.Status.Conditions, extensions.ConditionBound) {
		o.events = []event{happened}
	}
	return o
}

// readyOf is the claim's Ready condition for a Sandbox: the Sandbox's own.
func readyOf(s *agents.Sandbox) metav1.Condition {
	ready := apimeta.FindStatusCondition(s.Status.Conditions, agents.ConditionReady)
	switch {
	case ready == nil:
		return unready(extensions.ReasonSandboxNotReady, extensions.MessageSandboxNotReady).ready
	case ready.Reason == agents.ReasonSandboxExpired:
		return unready(agents.ReasonSandboxExpired, extensions.MessageUnderlyingSandboxExpired).ready
	default:
		return *ready
	}
}

// boundCondition tells how the claim came to its Sandbox. For one made for the claim
// it also remembers whether that was ever Ready, since its loss means something else
// then.
func boundCondition(claim *extensions.SandboxClaim, s *agents.Sandbox, ready bool) metav1.Condition {
	c := metav1.Condition{
		Type: extensions.ConditionBound, Status: metav1.ConditionTrue,
		Reason: extensions.ReasonAdopted, Message: fmt.Sprintf("Sandbox %q was adopted from a pool", s.Name),
	}
	if s.Name != claim.Name {
		return c
	}
	c.Reason, c.Message = extensions.ReasonCreated, fmt.Sprintf("Sandbox %q was made for the claim", s.Name)
	before := apimeta.FindStatusCondition(claim.Status.Conditions, extensions.ConditionBound)
	if ready || before != nil && before.Reason == extensions.ReasonStarted {
		c.Reason, c.Message = extensions.ReasonStarted, fmt.Sprintf("Sandbox %q was made for the claim and has been Ready", s.Name)
	}
	return c
}

// userError says what a person has to change. A claim that is bound stays so.
func userError(claim *extensions.SandboxClaim, reason, message string) outcome {
	if claim.Status.Sandbox.Name != "" {
		return unready(reason, message)
	}
	return unready(reason, message).unbound(reason, message)
}

// unready says why the claim is not Ready.
func unready(reason, message string) outcome {
	return outcome{
		ready: metav1.Condition{Type: agents.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message},
	}
}

// unbound says why the claim has no Sandbox.
func (o outcome) unbound(reason, message string) outcome {
	o.bound = &metav1.Condition{Type: extensions.ConditionBound, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	return o
}

// unlessServed keeps the claim in its pool's queue, if it may adopt a member of one: it
// cannot start cold, and the next member that is ready ends that. Why none of those that
// were ready did stands in Bound: the message of Ready is often one that clients compare.
func (o outcome) unlessServed(seen observed) outcome {
	o.waits = mayAdoptFrom(seen.Source.Pool) && mayAdopt(seen.Claim)
	o.bound.Message += passedOver(seen)
	return o
}

func waitingForMember(seen observed) outcome {
	message := fmt.Sprintf("Waiting for a Sandbox of SandboxWarmPool %q that is coming up", seen.Source.PoolName) + passedOver(seen)
	o := unready(extensions.ReasonSandboxNotReady, message).unbound(extensions.ReasonWaitingForMember, message)
	o.waits = true
	return o
}

func creating(seen observed, why string) outcome {
	message := fmt.Sprintf("Creating Sandbox %q: %s", seen.Claim.Name, why)
	return unready(extensions.ReasonSandboxNotReady, message+passedOver(seen)).unbound(extensions.ReasonCreating, message).unlessServed(seen)
}

// passedOverMark begins the part of a message that names members.
const passedOverMark = "; passed over: "

// steady returns the message that stands if the next one differs in the members alone
// that were passed over. Which of them a claim may look at depends on what other claims
// hold at that moment; claims that wait beside each other would write for ever.
func steady(conditions []metav1.Condition, kind, reason, message string) string {
	stands := apimeta.FindStatusCondition(conditions, kind)
	if stands == nil || stands.Reason != reason {
		return message
	}
	before, _, named := strings.Cut(stands.Message, passedOverMark)
	after, _, _ := strings.Cut(message, passedOverMark)
	if named && before == after {
		return stands.Message
	}
	return message
}

// passedOver names the members the claim could not adopt, and why.
func passedOver(seen observed) string {
	const most = 3
	rejected := slices.Clone(seen.Rejected)
	slices.Sort(rejected)
	switch n := len(rejected); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf(passedOverMark+"%s, and %d more", strings.Join(rejected[:most], ", "), n-most)
	default:
		return passedOverMark + strings.Join(rejected, ", ")
	}
}

// refused says that the server does not make the Sandbox of that name.
func refused(name string, answer error) outcome {
	message := fmt.Sprintf("Sandbox %q was refused: %v", name, answer)
	return unready(extensions.ReasonSandboxCreateRefused, message).unbound(extensions.ReasonSandboxCreateRefused, message)
}

// barred says that the server does not let the claim have the member it was promised.
func barred(name string, answer error) outcome {
	message := fmt.Sprintf("The adoption of Sandbox %q was refused: %v", name, answer)
	return unready(extensions.ReasonSandboxCreateRefused, message).unbound(extensions.ReasonSandboxCreateRefused, message)
}

func metadataRefused(s *agents.Sandbox, err error) string {
	return fmt.Sprintf("spec.additionalPodMetadata was refused by Sandbox %q: %v", s.Name, err)
}

func nameTaken(claim *extensions.SandboxClaim, s *agents.Sandbox) outcome {
	message := fmt.Sprintf(extensions.MessageSandboxNotControlledFormat, s.Name, claim.Name)
	return unready(extensions.ReasonSandboxNameTaken, message).unbound(extensions.ReasonSandboxNameTaken, message)
}

// notControlled says that the bound Sandbox was taken out of the claim's control.
func notControlled(claim *extensions.SandboxClaim, s *agents.Sandbox) outcome {
	return unready(agents.ReasonReconcilerError, fmt.Sprintf(agents.MessageErrorFormat, fmt.Sprintf(extensions.MessageSandboxNotControlledFormat, s.Name, claim.Name)))
}

func deadlineExceeded(claim *extensions.SandboxClaim) outcome {
	message := fmt.Sprintf("No Sandbox within bindDeadlineSeconds (%d); the claim waits no more. Delete it, or raise spec.lifecycle.bindDeadlineSeconds",
		*claim.Spec.Lifecycle.BindDeadlineSeconds)
	return unready(extensions.ReasonBindDeadlineExceeded, message).unbound(extensions.ReasonBindDeadlineExceeded, message)
}

// lost says that the claim's Sandbox is gone. Which one it was stays on record.
func lost(claim *extensions.SandboxClaim) outcome {
	o := unready(extensions.ReasonSandboxMissing, extensions.MessageSandboxMissing)
	o = o.unbound(extensions.ReasonSandboxMissing,
		fmt.Sprintf("Sandbox %q was deleted; set spec.lifecycle.sandboxLost to Replace for a new one, or delete the claim", claim.Status.Sandbox.Name))
	o.sandbox = &extensions.ClaimedSandbox{Name: claim.Status.Sandbox.Name, UID: claim.Status.Sandbox.UID}
	o.events = []event{{corev1.EventTypeWarning, extensions.ReasonSandboxMissing, "Binding", fmt.Sprintf("Sandbox %q was deleted", claim.Status.Sandbox.Name)}}
	return o
}

// released makes a claim whose Sandbox is gone unbound again.
func released(claim *extensions.SandboxClaim) outcome {
	message := fmt.Sprintf("Sandbox %q is gone and is being replaced", claim.Status.Sandbox.Name)
	o := unready(extensions.ReasonSandboxMissing, extensions.MessageSandboxMissing).unbound(extensions.ReasonCreating, message)
	o.sandbox = &extensions.ClaimedSandbox{}
	o.events = []event{{corev1.EventTypeWarning, extensions.ReasonSandboxMissing, "Binding", message}}
	return o
}

func expired(claim *extensions.SandboxClaim, message string, sandbox extensions.ClaimedSandbox) outcome {
	o := unready(extensions.ReasonClaimExpired, message)
	o.sandbox = &sandbox
	if sandbox.Name == "" {
		o = o.unbound(extensions.ReasonClaimExpired, message)
	}
	o.events = expiredEvent(claim)
	return o
}

func expiredSkipped(claim *extensions.SandboxClaim, s *agents.Sandbox) string {
	return fmt.Sprintf(extensions.MessageClaimExpiredSkippedFormat, fmt.Sprintf(extensions.MessageSandboxNotControlledFormat, s.Name, claim.Name))
}

func deletingNote(policy extensions.ClaimShutdownPolicy) string {
	return fmt.Sprintf(extensions.NoteDeletingClaimFormat, policy)
}

func poolNotFound(name string) string {
	return fmt.Sprintf(extensions.MessageWarmPoolNotFoundFormat, name)
}

func templateNotFound(name string) string {
	return fmt.Sprintf(extensions.MessageTemplateNotFoundFormat, name)
}
