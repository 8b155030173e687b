// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/workload"
)

// event is something to tell of once.
type event struct{ kind, reason, action, note string }

// What the controller was doing when something was worth an event.
const (
	actionResolveTarget = "ResolveTarget"
	actionResolveConfig = "ResolveConfig"
	actionApplyConfig   = "ApplyConfig"
	actionRestart       = "RestartSandbox"
	actionMTLS          = "MTLSReadyCheck"
	actionRelease       = "Release"
)

// transition is what a status write says of a rollout, for the metrics.
type transition struct {
	kind   string // of the workload
	result string // of the rollout that ended, if one did
	took   time.Duration
	// conflict and hashError say that one was not there before.
	conflict, hashError bool
}

// statusStep is the write that the status needs, or nil if it says all already.
func statusStep(seen observed, v verdict, now time.Time) *writeStatus {
	a := seen.runtime
	next := statusOf(seen, v, now)
	patch, differs, err := consistent.Diff(a.Status, next)
	if err != nil || !differs { // an error is impossible: a status has JSON
		return nil
	}
	return &writeStatus{
		patch:  consistent.Patch{"status": map[string]any(patch)},
		events: news(a.Status, next),
		note:   transitionOf(seen, a.Status, next, now),
		what:   saidOf(next, api.ConditionReady).Reason,
	}
}

// statusOf is the status that says what was observed and decided. Conditions of other
// writers stay.
func statusOf(seen observed, v verdict, now time.Time) api.AgentRuntimeStatus {
	a := seen.runtime
	next := *a.Status.DeepCopy()
	next.ObservedGeneration = a.Generation
	next.Target, next.RolloutStartTime = v.target, v.started
	if w := seen.workload; v.counted && w != nil {
		if seen.configErr == nil {
			next.DesiredConfigHash = seen.config.Hash
			next.Pods = ptr.To(w.Count(seen.want()))
		}
		next.AppliedConfigHash, next.ConfiguredPods = "", 0
		if w.Record != nil && w.Record.Runtime == a.UID {
			next.AppliedConfigHash = w.Has.ConfigHash
			next.ConfiguredPods = w.Count(w.Has).Updated
		}
	} else {
		next.Pods, next.ConfiguredPods = nil, 0
	}
	c := conditions{list: next.Conditions, generation: a.Generation, now: now}
	c.set(api.ConditionTargetResolved, v.resolved)
	c.set(api.ConditionConfigResolved, v.config)
	if v.resolved.reason != "" {
		c.set(api.ConditionMTLSReady, mtlsSaying(seen))
	}
	c.set(api.ConditionConfigConflict, v.conflict)
	c.set(api.ConditionRolloutComplete, v.rollout)
	c.set(api.ConditionReady, v.ready)
	next.Conditions = c.list
	next.Phase = phaseOf(next)
	return next
}

// errorReasons are those of Ready that a person has to do something about.
var errorReasons = []string{
	api.ReasonTargetResolveError, api.ReasonTargetTaken, api.ReasonConfigHashError, api.ReasonConfigApplyError, api.ReasonRolloutStalled,
}

func phaseOf(s api.AgentRuntimeStatus) api.Phase {
	ready := saidOf(s, api.ConditionReady)
	switch {
	case ready.Status == metav1.ConditionTrue:
		return api.PhaseActive
	case slices.Contains(errorReasons, ready.Reason):
		return api.PhaseError
	default:
		return api.PhasePending
	}
}

func configSaying(seen observed) saying {
	if warnings := seen.config.Warnings; len(warnings) > 0 {
		return yes(api.ReasonConfigWarning, strings.Join(warnings, "; "))
	}
	return yes(api.ReasonConfigResolved, "the configuration was read")
}

// spireVolumes are where a pod gets its identity from.
var spireVolumes = []string{"spire-agent-socket", "svid-output"}

// mtlsSaying tells of the template, since pods may get theirs from a webhook.
func mtlsSaying(seen observed) saying {
	w := seen.workload
	switch {
	case seen.targetErr != nil:
		return no(api.ReasonUnsupportedKind, "the target is of no kind that is known")
	case w == nil:
		return no(api.ReasonWorkloadNotFound, fmt.Sprintf("%s was not found", seen.target))
	case seen.runtime.MTLS() == api.MTLSDisabled:
		return yes(api.ReasonMTLSDisabled, "mtlsMode is disabled")
	case w.Kind == workload.Sandbox:
		return yes(api.ReasonSPIREAssumed, "a Sandbox's pods are assumed to get an identity")
	case slices.ContainsFunc(w.Volumes, func(name string) bool { return slices.Contains(spireVolumes, name) }):
		return yes(api.ReasonSPIREAvailable, "the pod template has a volume for identities")
	default:
		return no(api.ReasonSPIREUnavailable, fmt.Sprintf("the pod template of %s has no volume %s", seen.target, strings.Join(spireVolumes, " or ")))
	}
}

// conditions is a list of conditions as a status writer changes it.
type conditions struct {
	list       []metav1.Condition
	generation int64
	now        time.Time
}

// set adds or changes a condition; a saying without a reason changes nothing.
func (c *conditions) set(kind string, to saying) {
	if to.reason == "" {
		return
	}
	meta.SetStatusCondition(&c.list, metav1.Condition{
		Type: kind, Status: to.status, Reason: to.reason, Message: control.Message(to.message),
		ObservedGeneration: c.generation, LastTransitionTime: metav1.NewTime(c.now).Rfc3339Copy(),
	})
}

func saidOf(s api.AgentRuntimeStatus, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// news are the events that tell how two statuses differ: one for each condition whose
// reason is not what it was.
func news(before, after api.AgentRuntimeStatus) []event {
	var told []event
	tell := func(condition, kind, action string, reasons ...string) {
		was, is := saidOf(before, condition), saidOf(after, condition)
		if is.Reason != was.Reason && slices.Contains(reasons, is.Reason) {
			told = append(told, event{kind, is.Reason, action, is.Message})
		}
	}
	tell(api.ConditionTargetResolved, corev1.EventTypeWarning, actionResolveTarget, api.ReasonTargetNotFound, api.ReasonTargetResolveError)
	tell(api.ConditionConfigResolved, corev1.EventTypeWarning, actionResolveConfig, api.ReasonConfigWarning, api.ReasonConfigHashError)
	tell(api.ConditionMTLSReady, corev1.EventTypeWarning, actionMTLS, api.ReasonSPIREUnavailable)
	tell(api.ConditionConfigConflict, corev1.EventTypeWarning, actionApplyConfig, api.ReasonFieldConflict, api.ReasonStampsRemoved, api.ReasonTargetTaken)
	if saidOf(after, api.ConditionConfigConflict).Status != metav1.ConditionTrue {
		tell(api.ConditionReady, corev1.EventTypeWarning, actionApplyConfig, api.ReasonConfigApplyError)
	}
	tell(api.ConditionReady, corev1.EventTypeWarning, actionApplyConfig, api.ReasonRolloutStalled)
	tell(api.ConditionReady, corev1.EventTypeNormal, actionApplyConfig, api.ReasonConfigured)
	return told
}

// transitionOf says what a status write means for the metrics.
func transitionOf(seen observed, before, after api.AgentRuntimeStatus, now time.Time) transition {
	t := transition{kind: seen.target.Kind}
	entered := func(condition, reason string) bool {
		return saidOf(after, condition).Reason == reason && saidOf(before, condition).Reason != reason
	}
	t.conflict = entered(api.ConditionConfigConflict, api.ReasonFieldConflict) || entered(api.ConditionConfigConflict, api.ReasonStampsRemoved)
	t.hashError = entered(api.ConditionConfigResolved, api.ReasonConfigHashError)
	if before.RolloutStartTime == nil {
		return t
	}
	t.took = now.Sub(before.RolloutStartTime.Time)
	switch {
	case entered(api.ConditionRolloutComplete, api.ReasonRolloutStalled):
		t.result = resultStalled
	case after.RolloutStartTime == nil && rolledOutIn(after):
		t.result = resultComplete
	case after.RolloutStartTime == nil:
		t.result = resultAborted
	case before.DesiredConfigHash != after.DesiredConfigHash && rolloutReasonIn(before) != api.ReasonRolloutStalled:
		t.result = resultSuperseded
	}
	return t
}

func rolledOutIn(s api.AgentRuntimeStatus) bool {
	return meta.IsStatusConditionTrue(s.Conditions, api.ConditionRolloutComplete)
}

func rolloutReasonIn(s api.AgentRuntimeStatus) string {
	return saidOf(s, api.ConditionRolloutComplete).Reason
}
