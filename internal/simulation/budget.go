// SPDX-License-Identifier: Apache-2.0

package simulation

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// budget counts the requests that change something, and what they are for.
type budget struct {
	// writes are the replicas', all in all and by controller, verb and resource.
	writes int
	by     map[string]int
	// refused are those that a quota refused. They are sent again until it does not, less
	// and less often.
	refused int
	// causes are changes by anybody else, and faults: what gives replicas something to do.
	causes int
}

// sent is told of every write that reached the server, what it answered, and whether
// nothing has changed.
func (b *budget) sent(run *Run, c call, err error, idle bool) {
	if apierrors.IsForbidden(err) {
		b.refused++
		return
	}
	b.writes++
	if b.by == nil {
		b.by = map[string]int{}
	}
	b.by[run.writer.controller+": "+c.verb+" "+c.resource]++
	if err == nil && idle && c.verb != "delete" {
		run.fail(noIdleWrites, "%s: %s changed nothing", run.writer, c)
	}
}

// Every change by somebody else, and every fault, may cost so many writes, and so many
// may come on top.
const (
	writesPerCause = 2
	writesAnyway   = 20
)

// check holds that the replicas wrote no more than there was cause for, and were refused
// no more often.
func (b *budget) check(run *Run) {
	most := writesAnyway + writesPerCause*b.causes
	if b.writes > most {
		run.fail(withinBudget, "%d writes, although there were %d causes", b.writes, b.causes)
	}
	if b.refused > most {
		run.fail(withinBudget, "%d writes were refused, although there were %d causes", b.refused, b.causes)
	}
}
