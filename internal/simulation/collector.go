// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
	err := run.server.dispose(j)
	if apierrors.IsConflict(err) && stubborn {
		j.version = ""
		err = run.server.dispose(j)
	}
	run.note("garbage collector: delete %s %s: %s", j.resource, j.key.Name, outcome{nil, err})
}

// orphans are the objects whose owners are all gone, but for those already judged.
func (w *world) orphans(run *Run) []judgement { return w.unjudged(run.server.orphans()) }

// dependents are the objects that must go before their owner does, but for those
// already judged.
func (w *world) dependents(run *Run) []judgement { return w.unjudged(run.server.dependents()) }

func (w *world) unjudged(found []judgement) []judgement {
	return slices.DeleteFunc(found, func(f judgement) bool {
		return slices.ContainsFunc(w.judged, func(j judgement) bool { return j.uid == f.uid })
	})
}

// release lets go of an owner that waited for its dependents.
func (w *world) release(run *Run) bool {
	resource, key, ok := run.server.release()
	if ok {
		run.note("garbage collector: %s %s has no dependents left", resource, key.Name)
	}
	return ok
}
