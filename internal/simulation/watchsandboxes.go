// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

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
		} else {
			w.atMostOne(owner)
		}
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
		ready := apimeta.FindStatusCondition(c.Status.Conditions, agents.ConditionReady)
		if (ready == nil || ready.Reason != extensions.ReasonClaimExpired) && !run.writer.endedBy(c) {
			run.fail(boundLives, "%s deleted Sandbox %s, to which claim %s is bound", run.writer, before.Name, c.Name)
		}
	}
}

// surplusDeleted holds that of a claim's Sandboxes none is deleted before the claim says
// which one stays, lest the other turns out to be the one that it is bound to. It has said
// so at some time since the writer's pass began: a delete that is late may come when that
// one is gone. What expires goes in any case.
func (w *watcher) surplusDeleted(s *agents.Sandbox) {
	writer := w.run.writer
	if writer.controller != "claim" || w.overlap.on {
		return
	}
	for _, obj := range w.run.server.peek("sandboxclaims") {
		c := obj.(*extensions.SandboxClaim)
		if !control.IsControlledBy(s, c.UID) || c.Spec.Lifecycle.ShutdownTime != nil || c.Spec.Lifecycle.TTLSecondsAfterFinished != nil {
			continue
		}
		named := func(state client.Object) bool {
			past := asClaim(state)
			return past != nil && past.UID == c.UID && past.Status.Sandbox.UID != ""
		}
		if !slices.ContainsFunc(w.statesSince(w.claimed, "sandboxclaims", c.Name, writer.seen.began), named) {
			w.run.fail(surplusLater, "%s deleted Sandbox %s of claim %s, which has named none since the pass began", writer, s.Name, c.Name)
		}
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

// endedBy reports whether a claim has expired by the writer's clock. The claim may not
// say so: a former leader, by whose clock it had not, may have written last.
func (w writer) endedBy(c *extensions.SandboxClaim) bool {
	life := c.Spec.Lifecycle
	if life == nil {
		return false
	}
	now := w.replica.clock.Now()
	if life.ShutdownTime != nil && !now.Before(life.ShutdownTime.Time) {
		return true
	}
	finished := apimeta.FindStatusCondition(c.Status.Conditions, agents.ConditionFinished)
	return life.TTLSecondsAfterFinished != nil && finished != nil &&
		!now.Before(finished.LastTransitionTime.Add(time.Duration(*life.TTLSecondsAfterFinished)*time.Second))
}
