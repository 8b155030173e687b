// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/roster"
	"github.com/berthdev/berth/internal/template"
)

// standing is what the claim's pool has to give.
func (r *Reconciler) standing(seen observed) roster.Standing {
	if seen.Source.Pool == nil {
		return roster.Standing{}
	}
	return r.roster.Standing(client.ObjectKeyFromObject(seen.Source.Pool))
}

// sights are what was observed, in words. before are the claims that wait before it.
func sights(seen observed, pool roster.Standing, before []turn) []string {
	claim := seen.Claim
	var list []string
	if at := expiry(claim); !at.IsZero() {
		list = append(list, fmt.Sprintf("It expires at %s (shutdownPolicy %s).", at.UTC().Format(time.RFC3339), claim.ShutdownPolicy()))
	}
	if at := bindDeadline(claim); !at.IsZero() && claim.Status.Sandbox.Name == "" {
		list = append(list, "It waits for a sandbox until "+at.UTC().Format(time.RFC3339)+" (spec.lifecycle.bindDeadlineSeconds).")
	}
	switch {
	case claim.DeletionTimestamp != nil:
		return append(list, "It is being deleted.")
	case claim.Status.Sandbox.Name != "":
		return append(list, boundSight(seen))
	}
	list = append(list, "It has no sandbox yet.")
	if own := winner(seen.Mine); own != nil {
		list = append(list, "sandbox/"+own.Name+" is its own, and its status does not say so yet.")
	}
	return append(list, supplySights(seen, pool, before)...)
}

func boundSight(seen observed) string {
	bound, s := seen.Claim.Status.Sandbox, seen.Named
	name := "sandbox/" + bound.Name
	switch {
	case s == nil:
		return name + ", which it was given, is gone."
	case !isBoundTo(seen.Claim, s):
		return name + ", which it was given, is gone. Another sandbox has its name now."
	}
	how := ""
	if c := apimeta.FindStatusCondition(seen.Claim.Status.Conditions, extensions.ConditionBound); c != nil {
		how = " (" + c.Reason + ")"
	}
	ref := metav1.GetControllerOfNoCopy(s)
	switch {
	case control.IsControlledBy(s, seen.Claim.UID):
		return "It has " + name + how + "."
	case ref == nil:
		return "It was given " + name + ", which nobody controls any more."
	default:
		return fmt.Sprintf("It was given %s, which belongs to %s %q now.", name, ref.Kind, ref.Name)
	}
}

// supplySights tell where a Sandbox could come from.
func supplySights(seen observed, pool roster.Standing, before []turn) []string {
	claim, from := seen.Claim, seen.Source
	var list []string
	if claim.NeedsOwnSandbox() {
		list = append(list, "It asks for env or volumes of its own, which no member of a pool has: a sandbox is made for it.")
	}
	switch {
	case from.Pool != nil && from.Pool.DeletionTimestamp != nil:
		list = append(list, "pool/"+from.Pool.Name+" is being deleted and gives no members.")
	case from.Pool != nil:
		ready := pool.Ready
		if seen.Candidate != nil {
			ready++ // it is promised
		}
		members := "members"
		if ready == 1 {
			members = "member"
		}
		list = append(list, fmt.Sprintf("pool/%s has %d ready %s for it and the claims after it, and %d coming up; %s.",
			from.Pool.Name, ready, members, pool.ComingUp, waitersBefore(before, from.Pool.Name)))
	case from.PoolName != "":
		list = append(list, fmt.Sprintf("pool/%s does not exist.", from.PoolName))
	}
	for _, why := range seen.Rejected {
		list = append(list, "It may not have sandbox/"+why+".")
	}
	if s := seen.Occupant; s != nil {
		list = append(list, "sandbox/"+s.Name+" has the name that one made for it would have, and is not its own.")
	}
	switch t := from.Template; {
	case t == nil && from.TemplateName != "":
		list = append(list, fmt.Sprintf("template/%s does not exist.", from.TemplateName))
	case t != nil && seen.Candidate == nil && !seen.Wait:
		list = append(list, fmt.Sprintf("template/%s is there to make a sandbox from; its NetworkPolicy is %s.", t.Name, template.StateOf(seen.Policy, t)))
	}
	return list
}

// waitersBefore names the first of the claims that wait for members of a pool.
func waitersBefore(before []turn, pool string) string {
	const few = 3
	before = slices.DeleteFunc(slices.Clone(before), func(t turn) bool { return t.pool != pool })
	var names []string
	for _, t := range before[:min(few, len(before))] {
		names = append(names, "claim/"+t.claim.Name)
	}
	switch more := len(before) - few; {
	case len(before) == 0:
		return "no claim waits before it"
	case len(before) == 1:
		return names[0] + " waits before it"
	case more > 0:
		return fmt.Sprintf("%d claims wait before it (%s and %d more)", len(before), strings.Join(names, ", "), more)
	default:
		return fmt.Sprintf("%d claims wait before it (%s)", len(before), strings.Join(names, ", "))
	}
}

// waitOf is what a claim waits for that has nothing to do, or "" if it has all it needs.
func waitOf(seen observed, before []turn) string {
	claim := seen.Claim
	ready := apimeta.FindStatusCondition(claim.Status.Conditions, agents.ConditionReady)
	bound := apimeta.FindStatusCondition(claim.Status.Conditions, extensions.ConditionBound)
	switch {
	case claim.DeletionTimestamp != nil:
		return "what belongs to the claim to be deleted, by garbage collection"
	case ready != nil && ready.Status == metav1.ConditionTrue:
		return ""
	case ready != nil && ready.Reason == extensions.ReasonClaimExpired && len(seen.Mine) == 0:
		return "" // all that was to end has
	case ready != nil && ready.Reason == extensions.ReasonClaimExpired:
		return "sandbox/" + seen.Mine[0].Name + " to be gone"
	case seen.Wait:
		return fmt.Sprintf("a member of pool/%s that is coming up and is meant for this claim; %s", seen.Source.Pool.Name, waitersBefore(before, seen.Source.Pool.Name))
	case claim.Status.Sandbox.Name != "" && seen.Named != nil && control.IsControlledBy(seen.Named, claim.UID):
		return "sandbox/" + seen.Named.Name + " to be Ready: " + message(ready)
	case bound != nil && bound.Status != metav1.ConditionTrue:
		return message(bound)
	default:
		return message(ready)
	}
}

func message(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}
