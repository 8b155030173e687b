// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/control"
)

// watcher holds the invariants. It sees every change on the server, which no replica
// does, and remembers what there was.
type watcher struct {
	run     *Run
	overlap overlap
	// bestowed are Sandboxes that a user gave to a claim.
	bestowed map[types.UID]bool
	// tried is what the first pass had seen that tried to adopt each Sandbox. An adoption
	// whose outcome is unknown is repeated, whatever became of the pod.
	tried  map[client.ObjectKey]uint64
	budget budget
	// named counts the writes that only name members a claim passed over.
	named int
	// echoes are the objects whose status was last written by somebody who does not
	// lead: it looks like the leader's own writing.
	echoes map[thing]bool
	// made is when something of each name was made last.
	made      map[thing]time.Time
	evidence  evidence
	claims    map[types.UID]*claimRecord
	pods      map[types.UID]bool   // were ever a Sandbox's
	owners    map[types.UID]bool   // Sandboxes that ever had a pod
	stamps    map[types.UID]string // of another controller, by Sandbox
	pools     map[string][]client.Object
	templates map[string][]client.Object // every state, by name; nil is absence
	since     map[string][]uint64        // since which version, by resource and name
}

type claimRecord struct {
	created uint64
	mine    map[types.UID]bool // Sandboxes that were ever the claim's
}

func (w *watcher) begin(run *Run) {
	*w = watcher{
		run: run, claims: map[types.UID]*claimRecord{}, pods: map[types.UID]bool{}, owners: map[types.UID]bool{}, stamps: map[types.UID]string{},
		echoes: map[thing]bool{}, bestowed: map[types.UID]bool{}, tried: map[client.ObjectKey]uint64{}, made: map[thing]time.Time{}, evidence: evidence{},
		pools: map[string][]client.Object{}, templates: map[string][]client.Object{}, since: map[string][]uint64{},
	}
}

// changed is told of every change on the server; before and after must not be
// modified.
func (w *watcher) changed(resource string, before, after client.Object) {
	obj := after
	if obj == nil {
		obj = before
	}
	// A Sandbox of somebody else is one all the same.
	if w.run.writer != nil && obj.GetLabels()[foreign] != "" && w.run.writer.controller != "sandbox" {
		w.run.fail(foreignObjects, "%s wrote to %s %s", w.run.writer, resource, obj.GetName())
	}
	if before == nil {
		w.made[thing{resource, client.ObjectKeyFromObject(obj)}] = w.run.clock.Now()
	}
	if w.run.writer == nil {
		w.budget.causes++
	}
	w.echoed(resource, before, after)
	switch resource {
	case "pods":
		w.evidence.changed(w.run, asPod(before), asPod(after))
		w.podChanged(asPod(before), asPod(after))
	case "sandboxes":
		w.sandboxChanged(asSandbox(before), asSandbox(after))
	case "sandboxclaims":
		w.claimChanged(asClaim(before), asClaim(after))
	case "sandboxwarmpools":
		w.remember(w.pools, resource, obj.GetName(), after)
	case "sandboxtemplates":
		w.remember(w.templates, resource, obj.GetName(), after)
	}
}

func (w *watcher) remember(states map[string][]client.Object, resource, name string, after client.Object) {
	states[name] = append(states[name], after)
	w.since[resource+"/"+name] = append(w.since[resource+"/"+name], w.run.server.version)
}

// statesSince returns the states an object had at some time since a version; nil among
// them is absence.
func (w *watcher) statesSince(states map[string][]client.Object, resource, name string, version uint64) []client.Object {
	since := w.since[resource+"/"+name]
	at := len(since)
	for at > 0 && since[at-1] > version {
		at--
	}
	var found []client.Object
	if at == 0 {
		found = append(found, nil) // it did not exist yet
	} else {
		at--
	}
	return append(found, states[name][at:]...)
}

func (w *watcher) podChanged(before, after *corev1.Pod) {
	run := w.run
	if run.writer != nil && before != nil && before.DeletionTimestamp == nil && (after == nil || after.DeletionTimestamp != nil) && !w.pods[before.UID] {
		run.fail(ownPods, "%s deleted pod %s, which was never a Sandbox's", run.writer, before.Name)
	}
	if after == nil {
		return
	}
	owner := control.ControllerUID(after)
	if owner == "" {
		return
	}
	w.pods[after.UID], w.owners[owner] = true, true
	if after.DeletionTimestamp != nil {
		return
	}
	if before != nil && control.ControllerUID(before) == owner && before.DeletionTimestamp == nil {
		return
	}
	live := 0
	for _, obj := range run.server.peek("pods") {
		if obj.GetDeletionTimestamp() == nil && control.ControllerUID(obj) == owner {
			live++
		}
	}
	if live > 1 {
		run.fail(onePod, "Sandbox %s has %d live pods", owner, live)
	}
}

func (w *watcher) sandboxChanged(before, after *agents.Sandbox) {
	run := w.run
	if before != nil && run.writer != nil {
		w.sandboxWritten(before, after)
	}
	if after == nil {
		return
	}
	owner := control.ControllerUID(after)
	if record := w.claims[owner]; record != nil && !record.mine[after.UID] {
		record.mine[after.UID] = true
		if before == nil && run.writer == nil {
			w.bestowed[after.UID] = true
		}
		w.atMostOne(owner)
		if before != nil {
			w.adopted(record, before, after)
		} else {
			w.madeFor(record, after)
		}
	}
	if before == nil && run.writer != nil && !w.overlap.on {
		w.memberMade(after)
	}
}

// memberMade holds that a replica makes no more members than the pool had replicas since
// the pass began.
func (w *watcher) memberMade(s *agents.Sandbox) {
	run := w.run
	pool := control.ControllerOf(s, extensions.GroupName, extensions.SandboxWarmPoolKind)
	if pool == nil {
		return
	}
	members := 0
	for _, obj := range run.server.peek("sandboxes") {
		if control.ControllerUID(obj) == pool.UID {
			members++
		}
	}
	most := 0
	for _, state := range w.statesSince(w.pools, "sandboxwarmpools", pool.Name, run.writer.seen.pools) {
		if p := asPool(state); p != nil && p.UID == pool.UID {
			most = max(most, int(p.DesiredReplicas()))
		}
	}
	if members > most {
		run.fail(poolSize, "pool %s has %d members, and %d replicas at most since the pass began", pool.Name, members, most)
	}
}

// sandboxWritten looks at what a replica did to a Sandbox.
func (w *watcher) sandboxWritten(before, after *agents.Sandbox) {
	run := w.run
	if after != nil {
		w.calledReady(before, after)
		if want, ok := w.stamps[after.UID]; ok && after.Spec.PodTemplate.Metadata.Annotations[stamp] != want {
			run.fail(foreignKeys, "%s took another controller's annotation off Sandbox %s", run.writer, after.Name)
		}
	}
	if before.DeletionTimestamp != nil || after != nil && after.DeletionTimestamp == nil {
		return
	}
	w.surplusDeleted(before)
	owner := control.ControllerOf(before, extensions.GroupName, extensions.SandboxWarmPoolKind)
	if run.writer.controller == "warmpool" && owner == nil {
		run.fail(poolDeletesMembers, "%s deleted Sandbox %s, which is no pool's", run.writer, before.Name)
	}
	for _, obj := range run.server.peek("sandboxclaims") {
		c := obj.(*extensions.SandboxClaim)
		if c.Status.Sandbox.UID != before.UID || c.DeletionTimestamp != nil || before.Spec.ShutdownTime != nil || !control.IsControlledBy(before, c.UID) {
			continue
		}
		if ready := apimeta.FindStatusCondition(c.Status.Conditions, agents.ConditionReady); ready == nil || ready.Reason != extensions.ReasonClaimExpired {
			run.fail(boundLives, "%s deleted Sandbox %s, to which claim %s is bound", run.writer, before.Name, c.Name)
		}
	}
}

// surplusDeleted holds that of a claim's Sandboxes none is deleted before the claim says
// which one stays, lest the other turns out to be the one that it is bound to. What
// expires goes in any case.
func (w *watcher) surplusDeleted(s *agents.Sandbox) {
	if w.run.writer.controller != "claim" || w.overlap.on {
		return
	}
	for _, obj := range w.run.server.peek("sandboxclaims") {
		c := obj.(*extensions.SandboxClaim)
		if control.IsControlledBy(s, c.UID) && c.Status.Sandbox.UID == "" && c.Spec.Lifecycle.ShutdownTime == nil && c.Spec.Lifecycle.TTLSecondsAfterFinished == nil {
			w.run.fail(surplusLater, "%s deleted Sandbox %s of claim %s, which names none so far", w.run.writer, s.Name, c.Name)
		}
	}
}

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
	if !w.forbidden(claim, ref.Name, func(t *extensions.SandboxTemplate) bool { return blueprint.Matches(before, t) }) {
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
	if w.forbidden(record, claim.PoolName(), func(t *extensions.SandboxTemplate) bool { return t.Spec.PodTemplate.Spec.Containers[0].Image == image }) {
		w.run.fail(freshBlueprint,
			"%s made Sandbox %s with %s, which was older before the claim was created", w.run.writer, s.Name, image)
	}
}

// forbidden reports whether a claim may not get a Sandbox of a blueprint: at all times
// since the claim was created its pool was under Recreate, and the template another.
// That the pool was switched to Recreate counts once the pass has seen it.
func (w *watcher) forbidden(claim *claimRecord, pool string, matches func(*extensions.SandboxTemplate) bool) bool {
	for _, state := range w.statesSince(w.pools, "sandboxwarmpools", pool, min(claim.created, w.run.writer.seen.pools)) {
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
}

// calledReady holds that a Sandbox is called Ready only for a pod of its own that
// serves. It has had one since what the writer's pass has seen.
func (w *watcher) calledReady(before, after *agents.Sandbox) {
	if w.run.writer.controller == "sandbox" && apimeta.IsStatusConditionTrue(after.Status.Conditions, agents.ConditionReady) &&
		!equality.Semantic.DeepEqual(before.Status, after.Status) && !w.evidence.since(after.UID, w.run.writer.seen.pods) {
		w.run.fail(ownLivePod, "%s calls Sandbox %s Ready, which had no pod that served", w.run.writer, after.Name)
	}
}

// echoed remembers whose status was written by somebody who does not lead.
func (w *watcher) echoed(resource string, before, after client.Object) {
	if after == nil {
		return
	}
	if at := (thing{resource, client.ObjectKeyFromObject(after)}); w.run.writer != nil {
		delete(w.echoes, at)
		if before != nil && !w.run.writer.leads(w.run) {
			w.echoes[at] = true
		}
	}
}

// thing is an object, whatever its UID.
type thing struct {
	resource string
	key      client.ObjectKey
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

func asPod(obj client.Object) *corev1.Pod {
	pod, _ := obj.(*corev1.Pod)
	return pod
}

func asSandbox(obj client.Object) *agents.Sandbox {
	s, _ := obj.(*agents.Sandbox)
	return s
}

func asClaim(obj client.Object) *extensions.SandboxClaim {
	c, _ := obj.(*extensions.SandboxClaim)
	return c
}

func asPool(obj client.Object) *extensions.SandboxWarmPool {
	p, _ := obj.(*extensions.SandboxWarmPool)
	return p
}

func asTemplate(obj client.Object) *extensions.SandboxTemplate {
	t, _ := obj.(*extensions.SandboxTemplate)
	return t
}
