// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// statusInterval is how often counts are written at most. Everything else is written
// at once.
const statusInterval = time.Second

// report returns the status write that is due, or the rest that ends the pass.
func report(seen observed, s stock, now time.Time, wake alarm) step {
	status := statusOf(seen, s, now)
	was := &seen.Pool.Status
	if equality.Semantic.DeepEqual(*was, status) {
		return rest{(*poolStatus)(&status).progress().Message, wake.time}
	}
	if next := seen.Memory.StatusWritten.Add(statusInterval); now.Before(next) && routine(was, &status) {
		wake.at(next)
		return rest{"the counts in the status are written once a second", wake.time}
	}
	return writeStatus{status}
}

// routine reports whether two statuses differ in what changes with every claim.
func routine(was, is *extensions.SandboxWarmPoolStatus) bool {
	a, b := (*poolStatus)(was), (*poolStatus)(is)
	return was.ObservedGeneration == is.ObservedGeneration && was.Selector == is.Selector &&
		a.condition(extensions.ConditionTemplateResolved).Status == b.condition(extensions.ConditionTemplateResolved).Status &&
		(a.progress().Reason == b.progress().Reason || ordinary(a.progress().Reason) && ordinary(b.progress().Reason))
}

// ordinary reports whether a reason of Progressing is one of a pool that works.
func ordinary(reason string) bool {
	return slices.Contains([]string{extensions.ReasonComplete, extensions.ReasonFilling, extensions.ReasonScalingDown, extensions.ReasonUpdating}, reason)
}

type poolStatus extensions.SandboxWarmPoolStatus

// condition returns a condition, or an empty one.
func (s *poolStatus) condition(name string) metav1.Condition {
	if c := meta.FindStatusCondition(s.Conditions, name); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func (s *poolStatus) progress() metav1.Condition { return s.condition(extensions.ConditionProgressing) }

// statusOf returns the status of the pool as observed.
func statusOf(seen observed, s stock, now time.Time) extensions.SandboxWarmPoolStatus {
	pool := seen.Pool
	status := *pool.Status.DeepCopy()
	status.Replicas = int32(len(s.live))
	status.ReadyReplicas = int32(s.ready)
	status.UpdatedReplicas = int32(s.updated)
	status.Selector = agents.LabelWarmPool + "=" + agents.NameHash(pool.Name)
	status.ObservedGeneration = pool.Generation
	for _, c := range []metav1.Condition{available(s), progressing(seen, s, now), resolved(seen)} {
		c.ObservedGeneration = pool.Generation
		c.Message = control.Message(c.Message)
		c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

func available(s stock) metav1.Condition {
	c := metav1.Condition{
		Type: extensions.ConditionAvailable, Status: metav1.ConditionTrue, Reason: extensions.ReasonMembersReady,
		Message: fmt.Sprintf("%d of %d members are ready", s.ready, s.desired),
	}
	if s.ready < s.desired {
		c.Status, c.Reason = metav1.ConditionFalse, extensions.ReasonMembersNotReady
	}
	return c
}

func resolved(seen observed) metav1.Condition {
	name := seen.Pool.Spec.TemplateRef.Name
	if seen.Template == nil {
		return metav1.Condition{
			Type: extensions.ConditionTemplateResolved, Status: metav1.ConditionFalse, Reason: extensions.ReasonTemplateNotFound,
			Message: fmt.Sprintf(extensions.MessageTemplateNotFoundFormat, name),
		}
	}
	return metav1.Condition{
		Type: extensions.ConditionTemplateResolved, Status: metav1.ConditionTrue, Reason: extensions.ReasonTemplateFound,
		Message: fmt.Sprintf("SandboxTemplate %q is there", name),
	}
}

// failingFormat is how the message of ReasonMembersFailing begins.
const failingFormat = "members failed or did not become Ready and were replaced %d times in a row"

// progressing says what the pool does, in the order a person would ask: what keeps it
// from working, then what it works on.
func progressing(seen observed, s stock, now time.Time) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: extensions.ConditionProgressing, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	yes := func(reason, message string) metav1.Condition {
		c := no(reason, message)
		c.Status = metav1.ConditionTrue
		return c
	}
	for _, refused := range []refusal{seen.Memory.Creates, seen.Memory.Deletes} {
		if refused.applies(seen.versions()) {
			return no(refused.Reason, refused.Message)
		}
	}
	missing := s.desired - len(s.live)
	if missing > 0 && seen.Template == nil {
		return no(extensions.ReasonTemplateNotFound, fmt.Sprintf("no members can be made: "+extensions.MessageTemplateNotFoundFormat, seen.Pool.Spec.TemplateRef.Name))
	}
	if missing > 0 {
		if problem := seen.policyProblem(); problem != "" {
			return no(extensions.ReasonPoolError, "no members can be made: "+problem)
		}
	}
	switch failures := seen.Memory.failures(now); {
	case failures > 0 && len(s.lost) > 0, failures > 1 && s.ready < s.desired:
		return no(extensions.ReasonMembersFailing, fmt.Sprintf(failingFormat+"; %d more wait to be replaced", failures, len(s.lost)))
	case len(s.held) > 0:
		return no(extensions.ReasonMembersHeld, fmt.Sprintf("%s not Ready in time, and replacing would not help; %s: %s",
			membersAre(len(s.held)), s.held[0].member, s.held[0].why))
	case len(s.stale) > 0:
		return yes(extensions.ReasonUpdating, membersAre(len(s.stale))+" of an older blueprint and being replaced")
	case len(s.live) > s.desired, len(s.live) == s.desired && s.terminating > 0:
		return yes(extensions.ReasonScalingDown, membersAre(max(0, len(s.live)-s.desired)+s.terminating)+" leaving")
	case s.ready < s.desired:
		return yes(extensions.ReasonFilling, membersAre(s.desired-s.ready)+" coming up")
	default:
		return no(extensions.ReasonComplete, "all members are ready")
	}
}

// memberCount is how many members, in words.
func memberCount(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}

// membersAre is memberCount, with the verb.
func membersAre(n int) string {
	if n == 1 {
		return "1 member is"
	}
	return memberCount(n) + " are"
}
