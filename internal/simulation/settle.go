// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// horizon is how long a run is left alone, in its own time: longer than any pause.
const horizon = time.Hour

// settle leaves everything alone: what was sent arrives, what was paused resumes,
// nothing fails any more. In the end everything is as it should be, and a look at
// everything once more writes nothing.
func (run *Run) settle() {
	run.note("left alone")
	for len(run.late) > 0 {
		run.arrive(0)
	}
	for _, r := range run.replicas {
		r.paused = false
		if r.alive && r.leading && run.leader != r {
			r.finish()
			r.crash()
		}
		if !r.alive {
			r.start()
		}
	}
	if !run.leader.leading {
		run.failOver(run.leader)
	}
	run.world.calm(run)
	run.rest(horizon)
	if run.failure != nil {
		return
	}
	if len(run.watch.echoes) > 0 {
		// A status that a former leader wrote looks like an echo of the present one's. It
		// is repaired when the object is looked at next.
		run.lookAgain(func(resource string, obj client.Object) bool {
			return run.watch.echoes[thing{resource, client.ObjectKeyFromObject(obj)}]
		})
		run.rest(horizon)
		if run.failure != nil {
			return
		}
	}
	run.watch.converged()
	run.watch.budget.check(run)
	if run.failure != nil {
		return
	}
	written := run.watch.budget.writes - run.watch.named
	run.lookAgain(func(string, client.Object) bool { return true })
	run.rest(time.Minute)
	if more := run.watch.budget.writes - run.watch.named - written; more != 0 {
		run.fail(noWrites, "%d requests were sent although nothing had changed", more)
	}
}

// lookAgain has the leader look at some objects once more, as a resync does at all.
func (run *Run) lookAgain(at func(resource string, obj client.Object) bool) {
	for _, i := range run.leader.informers {
		for _, obj := range i.sorted() {
			if at(i.resource, obj) {
				run.note("%s %s is looked at once more", i.resource, obj.GetName())
				i.notices = append(i.notices, notice{before: obj, after: obj})
			}
		}
	}
}

// rest lets everything happen until nothing is left to happen for so long.
func (run *Run) rest(most time.Duration) {
	const tooMany = 3000
	end, swept := run.clock.Now().Add(most), false
	for round := 0; run.failure == nil; round++ {
		run.step++
		if round > tooMany {
			run.fail(comesToRest, "still busy after %d rounds", round)
			return
		}
		busy := false
		for _, r := range run.replicas {
			busy = r.catchUp() || busy
		}
		if busy = run.world.settle(run) || busy; busy {
			continue
		}
		at, ok := run.nextTimer()
		due := ok && !at.After(end)
		if !due && swept {
			return
		}
		if due {
			run.pass(max(time.Millisecond, at.Sub(run.clock.Now())))
		}
		swept = !due // sweeps come all the time, whether anything else is to happen or not
		for _, r := range run.replicas {
			for n, i := range r.informers {
				i.bookmark()
				r.sweep(n)
			}
		}
	}
}

// catchUp lets a replica see and do everything there is, and reports whether there
// was anything.
func (r *replica) catchUp() bool {
	busy := false
	for _, i := range r.informers {
		if n := i.behind(); n > 0 {
			i.deliver(n)
			busy = true
		}
		for len(i.notices) > 0 {
			r.tell(i)
			busy = true
		}
	}
	if r.leads() && r.caughtUp() {
		for _, c := range r.controllers {
			for c.busy < workers && len(c.queue.waiting) > 0 {
				r.begin(c, 0)
			}
		}
	}
	return r.finish() || busy
}

// finish lets a replica end what it has begun, and reports whether there was anything.
func (r *replica) finish() bool {
	busy := len(r.tasks) > 0
	for len(r.tasks) > 0 && r.run.failure == nil {
		r.resume(0)
		if n := len(r.tasks); n > 1 { // the first may wait for a lock of another
			first := r.tasks[0]
			copy(r.tasks, r.tasks[1:])
			r.tasks[n-1] = first
		}
	}
	return busy
}
