// SPDX-License-Identifier: Apache-2.0

package simulation

// overlap is a time in which there are two writers: somebody who does not lead has
// written. What needs a single writer is then repaired, not kept.
//
// It ends when the leader has seen all that was written until then, and what was
// decided or sent before that is done.
type overlap struct {
	on bool
	// until is the version that the leader has to see.
	until uint64
	// rest are the tasks that were at work when the leader had seen it; nil before.
	rest map[*task]bool
}

// begin begins an overlap, or prolongs it.
func (o *overlap) begin(run *Run) { *o = overlap{on: true, until: run.server.version} }

// look ends the overlap if that is due.
func (o *overlap) look(run *Run) {
	if !o.on || run.leader == nil || !run.leader.leads() {
		return
	}
	if o.rest == nil {
		for _, i := range run.leader.informers {
			if behind := i.behind(); behind > 0 && i.events()[i.next].Version <= o.until {
				return
			}
		}
		o.rest = map[*task]bool{}
		for _, r := range run.replicas {
			for _, t := range r.tasks {
				o.rest[t] = true
			}
		}
	}
	for _, r := range run.replicas {
		for _, t := range r.tasks {
			if o.rest[t] {
				return
			}
		}
	}
	if len(run.late) == 0 {
		*o = overlap{}
	}
}
