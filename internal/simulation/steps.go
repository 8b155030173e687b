// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"
)

// action is something that can happen next.
type action struct {
	weight int
	do     func()
}

func (run *Run) may(weight int, do func()) { run.actions = append(run.actions, action{weight, do}) }

// once lets one thing happen. What is calm comes first: it is what an ended tape
// chooses.
func (run *Run) once() {
	run.actions = run.actions[:0]
	for _, r := range run.replicas {
		r.actions()
	}
	run.world.actions(run)
	run.may(20, run.tick)
	for i := range run.late {
		run.may(run.focus.arrival, func() { run.arrive(i) })
	}
	run.may(run.focus.users, func() { run.world.user(run) })
	if run.faulty {
		run.faults()
	}
	run.watch.overlap.look(run)
	total := 0
	for _, a := range run.actions {
		total += a.weight
	}
	chosen := run.choices.Pick(total)
	for _, a := range run.actions {
		if chosen -= a.weight; chosen < 0 {
			a.do()
			return
		}
	}
}

// paces are how readily an informer delivers; the first is the usual.
var paces = []int{60, 60, 20, 4}

func (run *Run) pace() int { return paces[run.choices.Pick(len(paces))] }

// actions are what a replica can do next.
func (r *replica) actions() {
	if !r.alive || r.paused {
		return
	}
	run := r.run
	for n, t := range r.tasks {
		likely := 60
		if r.reading[t] && run.focus.sweeps {
			likely = 20 // what happens in the meantime is what the run is about
		}
		run.may(likely, func() { r.resume(n) })
	}
	if r.leads() && r.caughtUp() {
		for _, c := range r.controllers {
			if c.busy < workers && len(c.queue.waiting) > 0 {
				run.may(60, func() { r.begin(c, run.choices.Pick(len(c.queue.waiting))) })
			}
		}
	}
	for n, i := range r.informers {
		if behind := i.behind(); behind > 0 {
			run.may(i.pace, func() {
				i.deliver(1 + run.choices.Pick(min(behind, 4)))
				if run.focus.sweeps && run.choices.Chance(2) {
					r.sweepNow(n)
				}
			})
		}
		if len(i.notices) > 0 {
			run.may(60, func() { r.tell(i) })
		}
	}
	if run.faulty {
		run.may(12, r.hiccup)
	}
}

// hiccup is something that happens to an informer now and then.
func (r *replica) hiccup() {
	n := r.run.choices.Pick(len(r.informers))
	i := r.informers[n]
	switch r.run.choices.Pick(5) {
	case 0:
		i.bookmark()
	case 1:
		r.sweep(n)
	case 2:
		r.run.note("%s lists %s again", r.name, i.resource)
		i.relist()
	case 3:
		i.resync()
	case 4:
		i.pace = r.run.pace()
	}
}

// leads reports whether the replica starts new passes: it holds the lease. One that
// has lost it finishes what it has begun, until it notices and ends.
func (r *replica) leads() bool { return r.leading && r.run.leader == r }

// faults are what can go wrong with processes.
func (run *Run) faults() {
	for _, r := range run.replicas {
		switch {
		case !r.alive:
			run.may(30, r.start)
		case r.paused:
			// One that was replaced in the meantime is the more dangerous, the more its
			// successor is at.
			likely := run.focus.notices
			if run.leader != r {
				likely *= 1 + 4*run.leader.passes(run.focus.matters())
			}
			run.may(likely, func() {
				run.note("%s resumes", r.name)
				r.paused = false
			})
		case r.leading && run.leader != r:
			run.may(run.focus.notices, r.crash) // it notices that it lost the lease, and ends
		default:
			run.may(run.focus.upheaval, r.crash)
			// A pause matters while something is under way.
			run.may(run.focus.upheaval*(1+4*r.passes(run.focus.matters())), func() {
				run.note("%s pauses", r.name)
				r.paused = true
			})
		}
		gone := !run.leader.alive || run.leader.paused || !run.leader.leading
		if gone && r.alive && !r.paused && !r.leading {
			run.may(20, func() { run.failOver(r) })
		}
	}
}

// passes is how many passes of a controller are under way.
func (r *replica) passes(of string) int {
	n := 0
	for _, t := range r.tasks {
		if t.controller == of {
			n++
		}
	}
	return n
}

// lease is how long it takes until the lease of a leader that is gone can be taken.
const lease = 15 * time.Second

// failOver gives the lease of a leader that is dead or paused to a replica, once it
// has run out. Passes begin when its informers show what there was.
func (run *Run) failOver(to *replica) {
	run.pass(lease)
	run.note("%s takes the lease over", to.name)
	run.elect(to)
}

// arrive lets a late request arrive.
func (run *Run) arrive(n int) {
	l := run.late[n]
	run.late = slices.Delete(run.late, n, n+1)
	if made, ok := run.watch.made[thing{l.call.resource, l.call.key}]; ok && l.call.verb == "create" && !made.Before(l.sent) {
		// Its repeat has made the object meanwhile. If that is gone, this makes it once
		// more, and whoever sent it has no reason to expect that any more.
		run.watch.overlap.begin(run)
		defer run.watch.overlap.begin(run)
	}
	_, err := run.as(l.from, l.call, l.do)
	run.note("%s: the late %s arrives: %s", l.from, l.call, outcome{nil, err})
}

// tick moves the clock: by a little, or to the next time somebody waits for.
func (run *Run) tick() {
	by := time.Duration(1+run.choices.Pick(1000)) * time.Millisecond
	if run.choices.Chance(4) {
		if at, ok := run.nextTimer(); ok {
			by = max(by, at.Sub(run.clock.Now()))
		}
	}
	run.pass(by)
}

// pass lets time pass.
func (run *Run) pass(by time.Duration) {
	run.clock.advance(run.clock.Now().Add(by))
	// The server gives up on a request long before anybody forgets having sent it.
	run.late = slices.DeleteFunc(run.late, func(l late) bool { return run.clock.Since(l.sent) > requestLimit })
	for _, r := range run.replicas {
		for _, c := range r.controllers {
			c.queue.ring()
		}
	}
}

func (run *Run) nextTimer() (time.Time, bool) {
	var first time.Time
	for _, r := range run.replicas {
		if !r.alive || !r.leads() {
			continue
		}
		for _, c := range r.controllers {
			if len(c.queue.timers) > 0 && (first.IsZero() || c.queue.timers[0].at.Before(first)) {
				first = c.queue.timers[0].at
			}
		}
	}
	return first, !first.IsZero()
}
