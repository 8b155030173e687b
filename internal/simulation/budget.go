// SPDX-License-Identifier: Apache-2.0

package simulation

// budget counts the requests that change something, and what they are for.
type budget struct {
	// writes are the replicas', all in all and by controller, verb and resource.
	writes int
	by     map[string]int
	// causes are changes by anybody else, and faults: what gives replicas something to do.
	causes int
}

// sent is told of every write that the server carried out; idle is one that it accepted
// and that changed nothing.
func (b *budget) sent(run *Run, c call, idle bool) {
	b.writes++
	if b.by == nil {
		b.by = map[string]int{}
	}
	b.by[run.writer.controller+": "+c.verb+" "+c.resource]++
	if idle && c.verb != "delete" {
		run.fail(noIdleWrites, "%s: %s changed nothing", run.writer, c)
	}
}

// Every change by somebody else, and every fault, may cost so many writes, and so many
// may come on top.
const (
	writesPerCause = 2
	writesAnyway   = 20
)

// check holds that the replicas wrote no more than there was cause for.
func (b *budget) check(run *Run) {
	if most := writesAnyway + writesPerCause*b.causes; b.writes > most {
		run.fail(withinBudget, "%d writes, although there were %d causes", b.writes, b.causes)
	}
}
