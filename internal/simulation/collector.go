// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/consistent"
)

// judgement is the garbage collector's finding that an object has lost its owners. It
// acts on it later.
type judgement struct {
	resource string
	key      types.NamespacedName
	uid      types.UID
	version  string
}

// collect lets the garbage collector do one thing.
func (w *world) collect(run *Run) {
	if len(w.judged) > 0 && !run.choices.Chance(2) {
		n := run.choices.Pick(len(w.judged))
		j := w.judged[n]
		w.judged = slices.Delete(w.judged, n, n+1)
		w.execute(run, j, run.choices.Chance(2))
		return
	}
	found := w.orphans(run)
	found = append(found, w.dependents(run)...)
	if len(found) > 0 {
		w.judged = append(w.judged, found[run.choices.Pick(len(found))])
		return
	}
	w.release(run)
}

// collectAll does everything there is to do, and reports whether there was anything.
func (w *world) collectAll(run *Run) bool {
	w.judged = append(append(w.judged, w.orphans(run)...), w.dependents(run)...)
	busy := len(w.judged) > 0
	for _, j := range w.judged {
		w.execute(run, j, false)
	}
	w.judged = nil
	return w.release(run) || busy
}

// execute deletes what was judged. On a conflict the collector of Kubernetes looks
// again, and then may delete by UID alone.
func (w *world) execute(run *Run, j judgement, stubborn bool) {
	condition := consistent.DeleteCondition{UID: j.uid, ResourceVersion: j.version}
	_, _, err := run.server.Delete(j.resource, j.key, condition)
	if apierrors.IsConflict(err) && stubborn {
		condition.ResourceVersion = ""
		_, _, err = run.server.Delete(j.resource, j.key, condition)
	}
	run.note("garbage collector: delete %s %s: %s", j.resource, j.key.Name, outcome{nil, err})
}

// orphans are the objects whose owners are all gone.
func (w *world) orphans(run *Run) []judgement {
	var found []judgement
	for _, resource := range run.server.order {
		for _, obj := range run.server.peek(resource) {
			owners := obj.GetOwnerReferences()
			if len(owners) == 0 || obj.GetDeletionTimestamp() != nil {
				continue
			}
			orphaned := true
			for _, owner := range owners {
				orphaned = orphaned && !run.server.uids[owner.UID]
			}
			if orphaned {
				found = w.judge(found, resource, obj)
			}
		}
	}
	return found
}

func (w *world) judge(found []judgement, resource string, obj client.Object) []judgement {
	for _, j := range w.judged {
		if j.uid == obj.GetUID() {
			return found
		}
	}
	return append(found, judgement{resource, client.ObjectKeyFromObject(obj), obj.GetUID(), obj.GetResourceVersion()})
}

// waiting are the objects that are deleted in the foreground.
func (w *world) waiting(run *Run) map[types.UID]*judgement {
	var found map[types.UID]*judgement
	for _, resource := range run.server.order {
		for _, obj := range run.server.peek(resource) {
			if obj.GetDeletionTimestamp() != nil && slices.Contains(obj.GetFinalizers(), foregroundFinalizer) {
				if found == nil {
					found = map[types.UID]*judgement{}
				}
				found[obj.GetUID()] = &judgement{resource, client.ObjectKeyFromObject(obj), obj.GetUID(), ""}
			}
		}
	}
	return found
}

// dependents are the objects that must go before their owner does.
func (w *world) dependents(run *Run) []judgement {
	waiting := w.waiting(run)
	if waiting == nil {
		return nil
	}
	var found []judgement
	for _, resource := range run.server.order {
		for _, obj := range run.server.peek(resource) {
			for _, owner := range obj.GetOwnerReferences() {
				if waiting[owner.UID] != nil && obj.GetDeletionTimestamp() == nil {
					found = w.judge(found, resource, obj)
				}
			}
		}
	}
	return found
}

// release lets go of an object that was deleted in the foreground and has no
// dependents left.
func (w *world) release(run *Run) bool {
	waiting := w.waiting(run)
	if waiting == nil {
		return false
	}
	for _, resource := range run.server.order {
		for _, obj := range run.server.peek(resource) {
			for _, owner := range obj.GetOwnerReferences() {
				delete(waiting, owner.UID)
			}
		}
	}
	for _, resource := range run.server.order {
		for _, obj := range run.server.peek(resource) {
			if j := waiting[obj.GetUID()]; j != nil {
				run.note("garbage collector: %s %s has no dependents left", resource, obj.GetName())
				_ = run.server.Edit(resource, j.key, func(obj client.Object) {
					obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == foregroundFinalizer }))
				})
				return true
			}
		}
	}
	return false
}
