// SPDX-License-Identifier: Apache-2.0

// Package simulation runs the production controllers through adversarial schedules.
//
// A run is one API server, two replicas of the controller, a kubelet, a scheduler, a
// garbage collector, users, and another controller that writes to Sandboxes. One thing
// happens at a time, and the run's choices say which: an event reaches one informer, a
// pass goes on to its next API call, a process dies, a reply is lost. After every step
// the invariants hold; left alone, everything converges. A seed gives the same run
// every time.
package simulation

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/kinds"
)

// Settings say what kind of run it is.
type Settings struct {
	// Steps is how many things happen before the run is left alone.
	Steps int
	// World is what the runs are about.
	World World
	// Mutation breaks a rule, for the proof that the invariants notice.
	Mutation Mutation
}

// World is a family of runs. A seed means another run in each.
type World string

const (
	// Sandboxes is the world of Sandboxes, claims and pools.
	Sandboxes World = ""
	// Agents is the world of AgentRuntimes, beside Berth's controllers of Sandboxes or a
	// model of the public one.
	Agents World = "agents"
)

// Failure is a violation of an invariant.
type Failure struct {
	// Rule is the invariant's name.
	Rule string
	// What happened, and the trace up to it.
	What  string
	Trace []string
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s: %s\n%s", f.Rule, f.What, strings.Join(f.Trace, "\n"))
}

// Run is one run.
type Run struct {
	settings Settings
	choices  *Choices
	focus    focus
	clock    *Clock
	server   *Server
	replicas []*replica
	leader   *replica // who holds the lease
	writer   *writer  // whose request the server is carrying out
	late     []late
	fence    bool // writes of a replica that may have lost its lease are refused
	faulty   bool
	events   recorder
	names    int
	world    world
	public   *public // the model of the public Sandbox controller, nil if it does not run
	watch    watcher

	trace   []line
	failure *Failure
	step    int
	actions []action
	begins  []int // how many choices were made before each step
	crew    crew
}

// line is a line of the trace, formatted when somebody reads it.
type line struct {
	step   int
	at     time.Time
	format string
	args   []any
}

func (l line) String() string {
	return fmt.Sprintf("%5d %s  %s", l.step, l.at.Format("15:04:05"), fmt.Sprintf(l.format, l.args...))
}

// New returns a run that has not begun.
func New(choices *Choices, settings Settings) *Run {
	run := &Run{settings: settings, choices: choices, clock: NewClock()}
	run.events.told = map[about]bool{}
	run.server = NewServer(run.clock)
	serveAll(run.server)
	if settings.World == Agents {
		serve(run.server, kinds.AgentRuntimes(), true)
		serve(run.server, kinds.ConfigMaps(), false)
	}
	run.server.Admit = run.admit
	run.server.Changed = run.watch.changed
	run.watch.begin(run)
	return run
}

// Do carries the run out and returns the first violation, or nil.
func (run *Run) Do() *Failure {
	defer run.end()
	run.chooseFocus()
	for _, name := range []string{"A", "B"}[:run.focus.replicas] {
		run.replicas = append(run.replicas, &replica{run: run, name: name, clock: &skewed{clock: run.clock}})
	}
	run.fence = run.choices.Pick(3) != 2 && !run.focus.unfenced
	faulty := run.choices.Pick(5) != 0
	if run.settings.World == Agents {
		run.world.populateAgents(run)
	} else {
		run.world.populate(run)
	}
	for _, r := range run.replicas {
		r.clock.by = []time.Duration{0, -skew, skew}[run.choices.Pick(3)]
		r.start()
	}
	run.elect(run.replicas[0])
	if run.settings.World == Sandboxes {
		run.world.firstClaims(run)
	}
	run.faulty = faulty
	for run.step = 1; run.step <= run.settings.Steps && run.failure == nil; run.step++ {
		run.begins = append(run.begins, len(run.choices.made))
		run.once()
	}
	run.faulty = false
	if run.failure == nil {
		run.settle()
	}
	return run.failure
}

// end kills what still runs.
func (run *Run) end() {
	for _, r := range run.replicas {
		for _, t := range r.tasks {
			t.kill()
		}
	}
	if run.public != nil {
		run.public.end()
	}
	run.crew.dismiss()
}

// note adds a line to the trace.
func (run *Run) note(format string, args ...any) {
	run.trace = append(run.trace, line{run.step, run.clock.Now(), format, args})
}

// fail records the first violation.
func (run *Run) fail(rule, format string, args ...any) {
	if run.failure != nil {
		return
	}
	what := fmt.Sprintf(format, args...)
	run.note("VIOLATION of %q: %s", rule, what)
	run.failure = &Failure{Rule: rule, What: what, Trace: run.Trace()}
}

// Trace tells what happened so far, who saw what and did what.
func (run *Run) Trace() []string {
	lines := make([]string, len(run.trace))
	for i, l := range run.trace {
		lines[i] = l.String()
	}
	return lines
}

// Made returns the choices the run made, which repeat it.
func (run *Run) Made() []int { return run.choices.Made() }

// suffix gives names their ends. They are random in production and merely different
// here.
func (run *Run) suffix() string {
	run.names++
	return fmt.Sprintf("n%04d", run.names)
}

// elect gives the lease to a replica, which starts its controllers.
func (run *Run) elect(r *replica) {
	run.leader = r
	if r != nil && r.alive && !r.leading {
		r.lead()
	}
}

// serveAll makes a server know the kinds.
func serveAll(s *Server) {
	serve(s, kinds.Sandboxes(), true)
	serve(s, kinds.Templates(), false)
	serve(s, kinds.WarmPools(), true)
	serve(s, kinds.Claims(), true)
	serve(s, kinds.Pods(), true)
	serve(s, kinds.Services(), true)
	serve(s, kinds.VolumeClaims(), true)
	serve(s, kinds.NetworkPolicies(), false)
}

// recorder knows which events there were.
type recorder struct{ told map[about]bool }

// about is what an event says of an object.
type about struct {
	uid    types.UID
	reason string
}

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	if obj, ok := regarding.(client.Object); ok {
		r.told[about{obj.GetUID(), reason}] = true
	}
}

// serve makes the server know one kind.
func serve[T client.Object](s *Server, kind kinds.Kind[T], status bool) {
	s.Serve(schema.GroupResource{Group: kind.GVK.Group, Resource: kind.Resource}, func() client.Object { return kind.New() }, status)
}

func joined(errs []error) error { return errors.Join(errs...) }
