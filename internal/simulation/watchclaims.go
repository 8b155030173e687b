// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/control"
)

// atMostOne holds that a claim controls one Sandbox.
func (w *watcher) atMostOne(claim types.UID) {
	if w.overlap.on {
		return
	}
	var live []string
	for _, obj := range w.run.server.peek("sandboxes") {
		if control.ControllerUID(obj) == claim && obj.GetDeletionTimestamp() == nil && !w.bestowed[obj.GetUID()] {
			live = append(live, obj.GetName())
		}
	}
	if len(live) > 1 {
		w.run.fail(onePerClaim, "claim %s controls %v", claim, live)
	}
}

// adopted looks at an adoption of a pool's member.
func (w *watcher) adopted(claim *claimRecord, before, after *agents.Sandbox) {
	run := w.run
	ref := control.ControllerOf(before, extensions.GroupName, extensions.SandboxWarmPoolKind)
	switch {
	case run.writer == nil:
		return
	case ref == nil:
		run.fail(membersOnly, "%s adopted Sandbox %s, which was no pool's", run.writer, after.Name)
		return
	case before.DeletionTimestamp != nil:
		run.fail(membersOnly, "%s adopted Sandbox %s, which is being deleted", run.writer, after.Name)
		return
	case !equality.Semantic.DeepEqual(before.Spec, after.Spec):
		run.fail(specLeftAlone, "%s changed the spec of Sandbox %s", run.writer, after.Name)
		return
	case !blueprint.Intact(before):
		run.fail(membersOnly, "%s adopted Sandbox %s, which is suspended or has an end", run.writer, after.Name)
		return
	case !w.evidence.since(after.UID, min(run.writer.seen.pods, w.tried[client.ObjectKeyFromObject(after)])):
		run.fail(readyOnly, "%s adopted Sandbox %s, which had no pod that served", run.writer, after.Name)
		return
	}
	if !w.forbidden(claim, run.writer.seen.pools, ref.Name, func(t *extensions.SandboxTemplate) bool { return blueprint.Matches(before, t) }) {
		return
	}
	run.fail(freshBlueprint,
		"%s adopted Sandbox %s, which was of an older blueprint before the claim was created", run.writer, after.Name)
}

// madeFor looks at a Sandbox that was made for a claim.
func (w *watcher) madeFor(record *claimRecord, s *agents.Sandbox) {
	claim := asClaim(w.run.server.tables["sandboxclaims"].objects[key(s.Name)])
	if w.run.writer == nil || claim == nil || !control.IsControlledBy(s, claim.UID) || claim.PoolName() == "" {
		return
	}
	if slices.Contains(w.statesSince(w.pools, "sandboxwarmpools", claim.PoolName(), record.created), nil) {
		return // a template of the claim's own may have taken the pool's place
	}
	image := s.Spec.PodTemplate.Spec.Containers[0].Image
	same := func(t *extensions.SandboxTemplate) bool { return t.Spec.PodTemplate.Spec.Containers[0].Image == image }
	if w.forbidden(record, w.triedMaking[claim.UID], claim.PoolName(), same) {
		w.run.fail(freshBlueprint,
			"%s made Sandbox %s with %s, which was older before the claim was created", w.run.writer, s.Name, image)
	}
}

// forbidden reports whether a claim may not get a Sandbox of a blueprint: at all times
// since the claim was created its pool was under Recreate, and the template another.
// That the pool was switched to Recreate counts once the pass has seen it, which had seen
// that much of pools.
func (w *watcher) forbidden(claim *claimRecord, seen uint64, pool string, matches func(*extensions.SandboxTemplate) bool) bool {
	for _, state := range w.statesSince(w.pools, "sandboxwarmpools", pool, min(claim.created, seen)) {
		pool := asPool(state)
		if pool == nil {
			continue
		}
		if pool.UpdateStrategyType() != extensions.WarmPoolRecreate {
			return false
		}
		for _, state := range w.statesSince(w.templates, "sandboxtemplates", pool.Spec.TemplateRef.Name, claim.created) {
			if t := asTemplate(state); t != nil && matches(t) {
				return false
			}
		}
	}
	return true
}

// tries is told of every request before it is sent.
func (w *watcher) tries(from writer, c call) {
	if _, known := w.tried[c.key]; !known && from.controller == "claim" && c.verb == "patch" && c.resource == "sandboxes" {
		w.tried[c.key] = from.seen.pods
	}
	if from.controller != "claim" || c.verb != "create" || c.resource != "sandboxes" {
		return
	}
	if claim := w.run.server.tables["sandboxclaims"].objects[c.key]; claim != nil {
		if _, known := w.triedMaking[claim.GetUID()]; !known {
			w.triedMaking[claim.GetUID()] = from.seen.pools
		}
	}
}

func (w *watcher) claimChanged(before, after *extensions.SandboxClaim) {
	run := w.run
	if after == nil {
		return
	}
	if before == nil {
		w.claims[after.UID] = &claimRecord{created: run.server.version, mine: map[types.UID]bool{}}
		return
	}
	if run.writer != nil && namesMembers(before, after) {
		w.named++
	}
	record := w.claims[after.UID]
	was, is := before.Status.Sandbox, after.Status.Sandbox
	if was.UID != is.UID {
		if was.UID != "" && run.server.uids[was.UID] {
			run.fail(bindingLasts, "claim %s was bound to %s (%s), which exists, and is now to %q", after.Name, was.Name, was.UID, is.Name)
		}
		if is.UID != "" && !record.mine[is.UID] {
			run.fail(boundToOwn, "claim %s is bound to Sandbox %s (%s), which was never the claim's", after.Name, is.Name, is.UID)
		}
	}
	w.notFound(record, before, after)
}

// namesMembers reports whether all that changed is that a claim names members that it
// passed over. It may have looked while others held them, and then names them later.
func namesMembers(before, after *extensions.SandboxClaim) bool {
	said, same := false, len(before.Status.Conditions) == len(after.Status.Conditions)
	for _, is := range after.Status.Conditions {
		was := apimeta.FindStatusCondition(before.Status.Conditions, is.Type)
		if was == nil || was.Reason != is.Reason {
			return false
		}
		head, _, named := strings.Cut(is.Message, "; passed over: ")
		same = same && (was.Message == head || was.Message == is.Message)
		said = said || named && was.Message == head
	}
	return said && same
}

// notFound holds that a claim says that its pool or template does not exist only if
// that was so: clients delete the claim on seeing it.
func (w *watcher) notFound(record *claimRecord, before, after *extensions.SandboxClaim) {
	reason := func(c *extensions.SandboxClaim) string {
		if ready := apimeta.FindStatusCondition(c.Status.Conditions, agents.ConditionReady); ready != nil {
			return ready.Reason
		}
		return ""
	}
	is := reason(after)
	if reason(before) == is {
		return
	}
	gone := func(obj client.Object) bool { return obj == nil }
	switch is {
	case extensions.ReasonWarmPoolNotFound:
		if !slices.ContainsFunc(w.statesSince(w.pools, "sandboxwarmpools", after.PoolName(), record.created), gone) {
			w.run.fail(absenceProved, "claim %s says that its pool does not exist, which it always did", after.Name)
		}
	case extensions.ReasonTemplateNotFound:
		names := []string{after.TemplateName()}
		for _, state := range w.statesSince(w.pools, "sandboxwarmpools", after.PoolName(), record.created) {
			if pool := asPool(state); pool != nil {
				names = append(names, pool.Spec.TemplateRef.Name)
			}
		}
		for _, name := range names {
			if name != "" && slices.ContainsFunc(w.statesSince(w.templates, "sandboxtemplates", name, record.created), gone) {
				return
			}
		}
		w.run.fail(absenceProved, "claim %s says that its template does not exist, which it always did", after.Name)
	}
}
