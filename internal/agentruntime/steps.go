// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"fmt"
	"time"

	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/workload"
)

// A step is the one thing to do next.
type step interface {
	fmt.Stringer
	isStep()
}

type (
	// addFinalizer makes sure that the AgentRuntime can clean up before it goes.
	addFinalizer struct{}
	// removeFinalizer lets the AgentRuntime go. left says what may be left of it, if
	// anything is.
	removeFinalizer struct{ left string }
	// askFor asks the server for a workload that the cache does not show, or shows without
	// anything on it.
	askFor struct{ target workload.Target }
	// confirmPods asks the server for pods that count as configured, and that only a cache
	// shows: they may have ended before the stamps were written.
	confirmPods struct{ pods []workload.Pod }
	// readConfig reads the configuration from the server before anything is stamped.
	readConfig struct{}
	// begin writes the status that says that pods are about to be replaced, if not too
	// many others' are. What the server refused before is tried first: else the status
	// would say so, and the opposite, in turn.
	begin struct {
		writeStatus
		first step
	}
	// stamp puts the stamps on the workload.
	stamp struct {
		workload *workload.Workload
		want     workload.Stamps
		wiped    bool
	}
	// release takes the stamps off, and keeps the record of pods that still have them,
	// if there is one.
	release struct {
		workload *workload.Workload
		keep     *workload.Record
	}
	// mark writes down which pods are older than the stamps.
	mark struct{ workload *workload.Workload }
	// replace deletes pods that are older than the stamps.
	replace struct {
		workload *workload.Workload
		pods     []workload.Pod
	}
	// writeStatus writes the status, and tells of what changed.
	writeStatus struct {
		patch  consistent.Patch
		events []event
		note   transition
		what   string
	}
	// rest waits for the next event, or until a time if one is given.
	rest struct {
		why   string
		until time.Time
	}
	// retry ends the pass with an error, to be repeated with backoff.
	retry struct{ err error }
)

func (addFinalizer) isStep()    {}
func (removeFinalizer) isStep() {}
func (askFor) isStep()          {}
func (confirmPods) isStep()     {}
func (readConfig) isStep()      {}
func (begin) isStep()           {}
func (stamp) isStep()           {}
func (release) isStep()         {}
func (mark) isStep()            {}
func (replace) isStep()         {}
func (writeStatus) isStep()     {}
func (rest) isStep()            {}
func (retry) isStep()           {}

func (addFinalizer) String() string { return "make sure that the workload is cleaned up at the end" }
func (r removeFinalizer) String() string {
	if r.left != "" {
		return "let the AgentRuntime go, although " + r.left
	}
	return "let the AgentRuntime go"
}
func (a askFor) String() string {
	return fmt.Sprintf("ask the server for %s", a.target)
}
func (c confirmPods) String() string {
	return fmt.Sprintf("ask the server whether %d pods are there", len(c.pods))
}
func (readConfig) String() string { return "read the configuration from the server" }
func (b begin) String() string {
	return "begin to replace pods, unless too many others' are being replaced"
}
func (s stamp) String() string {
	return fmt.Sprintf("put the configuration's hash on %s", s.workload.Target)
}
func (r release) String() string {
	return fmt.Sprintf("take the configuration's hash off %s", r.workload.Target)
}
func (m mark) String() string {
	return fmt.Sprintf("write down which pods of %s are outdated", m.workload.Target)
}
func (r replace) String() string {
	return fmt.Sprintf("delete %d outdated pods of %s", len(r.pods), r.workload.Target)
}
func (w writeStatus) String() string { return "write the status: " + w.what }
func (r rest) String() string        { return "rest: " + r.why }
func (r retry) String() string       { return "try again: " + r.err.Error() }
