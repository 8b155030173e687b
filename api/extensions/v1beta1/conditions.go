// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types of a SandboxWarmPool.
const (
	// ConditionAvailable is True when the pool has as many ready members as it should.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while the pool gets nearer to what it should be.
	ConditionProgressing = "Progressing"
	// ConditionTemplateResolved is True when the pool's template is there.
	ConditionTemplateResolved = "TemplateResolved"
)

// Reasons of a SandboxWarmPool's conditions.
const (
	// ReasonMembersReady: Available; all members are ready.
	ReasonMembersReady = "MembersReady"
	// ReasonMembersNotReady: Available; some are not.
	ReasonMembersNotReady = "MembersNotReady"

	// ReasonComplete: Progressing; there is nothing to do.
	ReasonComplete = "Complete"
	// ReasonFilling: Progressing; members are being made.
	ReasonFilling = "Filling"
	// ReasonScalingDown: Progressing; members are being deleted.
	ReasonScalingDown = "ScalingDown"
	// ReasonUpdating: Progressing; members of an older blueprint are being replaced.
	ReasonUpdating = "Updating"
	// ReasonMembersHeld: Progressing; members wait for something outside, such
	// as a node or an image, and the message says what.
	ReasonMembersHeld = "MembersHeld"
	// ReasonMembersFailing: Progressing; members fail and are replaced, with a growing pause.
	ReasonMembersFailing = "MembersFailing"
	// ReasonCreateRefused: Progressing; the API server refuses new members, and the message says why.
	ReasonCreateRefused = "CreateRefused"
	// ReasonPoolError: Progressing; something else went wrong, and the message says what.
	ReasonPoolError = "PoolError"

	// ReasonTemplateFound: TemplateResolved; the template is there.
	ReasonTemplateFound = "TemplateFound"
)

// Reasons of events about a SandboxWarmPool.
const (
	// EventWarmPoolNotProgressing: members are held past the readiness grace period.
	EventWarmPoolNotProgressing = "WarmPoolNotProgressing"
	// EventWarmPoolProgressing: they are not any more.
	EventWarmPoolProgressing = "WarmPoolProgressing"
)

// Condition types of a SandboxClaim. Ready and Finished are those of its
// Sandbox, see agents.ConditionReady and agents.ConditionFinished.
const (
	// ConditionBound is True once the claim has a Sandbox.
	ConditionBound = "Bound"
	// ConditionMetadataConflict is there, and True, only while somebody else's
	// value stands on a key of the claim's additionalPodMetadata.
	ConditionMetadataConflict = "MetadataConflict"
)

// Reasons of a SandboxClaim's Ready condition. Where the claim has a Sandbox,
// the Sandbox's own Ready condition is repeated.
const (
	// ReasonTemplateNotFound: the template is not there. Also a reason of a pool's TemplateResolved.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonWarmPoolNotFound: the pool is not there.
	ReasonWarmPoolNotFound = "WarmPoolNotFound"
	// ReasonAdoptionConflict: another writer was faster; it is tried again.
	ReasonAdoptionConflict = "AdoptionConflict"
	// ReasonSandboxCreatePending: the Sandbox was made and is not seen yet.
	ReasonSandboxCreatePending = "SandboxCreatePending"
	// ReasonInvalidMetadata: additionalPodMetadata is not allowed.
	ReasonInvalidMetadata = "InvalidMetadata"
	// ReasonEnvVarsInjectionRejected: env is not allowed.
	ReasonEnvVarsInjectionRejected = "EnvVarsInjectionRejected"
	// ReasonVolumeClaimTemplatesError: volumeClaimTemplates are not allowed.
	ReasonVolumeClaimTemplatesError = "VolumeClaimTemplatesError"
	// ReasonClaimExpired: the claim has expired. Also the reason of the events.
	ReasonClaimExpired = "ClaimExpired"
	// ReasonSandboxMissing: the claim's Sandbox is gone.
	ReasonSandboxMissing = "SandboxMissing"
	// ReasonSandboxNotReady: the claim's Sandbox has not said yet whether it is Ready.
	ReasonSandboxNotReady = "SandboxNotReady"
	// ReasonSandboxCreateRefused: the API server refuses the Sandbox, and the message says why.
	ReasonSandboxCreateRefused = "SandboxCreateRefused"
	// ReasonSandboxNameTaken: a Sandbox of the claim's name belongs to something else.
	ReasonSandboxNameTaken = "SandboxNameTaken"
	// ReasonBindDeadlineExceeded: the claim stopped waiting. Also a reason of Bound.
	ReasonBindDeadlineExceeded = "BindDeadlineExceeded"
)

// Reasons of a SandboxClaim's Bound condition. When it is False for a reason
// that Ready has too, it has that one.
const (
	// ReasonAdopted: the Sandbox came from a pool.
	ReasonAdopted = "Adopted"
	// ReasonCreated: the Sandbox was made for the claim and has not been Ready yet.
	ReasonCreated = "Created"
	// ReasonStarted: the Sandbox was made for the claim and has been Ready.
	ReasonStarted = "Started"
	// ReasonWaitingForMember: a member of the pool that is coming up is meant for the claim.
	ReasonWaitingForMember = "WaitingForMember"
	// ReasonCreating: the Sandbox is being made.
	ReasonCreating = "Creating"
)

// ReasonForeignValue is the reason of MetadataConflict; the message names the keys.
const ReasonForeignValue = "ForeignValue"

// Reasons of events about a SandboxClaim.
const (
	// EventSandboxAdopted: a member of a pool was adopted.
	EventSandboxAdopted = "SandboxAdopted"
	// EventSandboxProvisioned: a Sandbox was made for the claim.
	EventSandboxProvisioned = "SandboxProvisioned"
)

// Messages of conditions and events. Clients compare them.
const (
	// MessageTemplateNotFoundFormat goes with ReasonTemplateNotFound; its argument is the template's name.
	MessageTemplateNotFoundFormat = "SandboxTemplate %q not found"
	// MessageWarmPoolNotFoundFormat goes with ReasonWarmPoolNotFound; its argument is the pool's name.
	MessageWarmPoolNotFoundFormat = "SandboxWarmPool %q not found"
	// MessageSandboxCreatePending goes with ReasonSandboxCreatePending.
	MessageSandboxCreatePending = "Sandbox already created; waiting for cache to converge"
	// MessageClaimExpired goes with ReasonClaimExpired.
	MessageClaimExpired = "Claim expired. Sandbox cleanup initiated."
	// MessageClaimExpiredSkippedFormat goes with ReasonClaimExpired when the
	// Sandbox is not the claim's; its argument is why.
	MessageClaimExpiredSkippedFormat = "Claim expired. %s; deletion skipped."
	// MessageSandboxMissing goes with ReasonSandboxMissing.
	MessageSandboxMissing = "Sandbox does not exist"
	// MessageUnderlyingSandboxExpired goes with agents.ReasonSandboxExpired on a claim.
	MessageUnderlyingSandboxExpired = "Underlying Sandbox resource has expired independently of the Claim."
	// MessageSandboxNotReady goes with ReasonSandboxNotReady.
	MessageSandboxNotReady = "Sandbox is not ready"
	// MessageSandboxNotControlledFormat: sandbox, claim.
	MessageSandboxNotControlledFormat = "sandbox %q is not controlled by claim %q. Please use a different claim name or delete the sandbox manually"

	// NoteClaimExpired is the note of the first event ReasonClaimExpired.
	NoteClaimExpired = "Claim expired"
	// NoteDeletingClaimFormat is the note of the second; its argument is the shutdown policy.
	NoteDeletingClaimFormat = "Deleting Claim (ShutdownPolicy=%s)"
	// NoteSandboxAdoptedFormat is the note of EventSandboxAdopted; its argument is the Sandbox's name.
	NoteSandboxAdoptedFormat = "Adopted warm pool Sandbox %q"
	// NoteSandboxProvisionedFormat is the note of EventSandboxProvisioned; its argument is the Sandbox's name.
	NoteSandboxProvisionedFormat = "Created Sandbox %q"
)
