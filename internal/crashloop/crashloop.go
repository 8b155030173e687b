// SPDX-License-Identifier: Apache-2.0

// Package crashloop tells containers that end again and again from those that run, also in
// the moments between, in which the kubelet says that they are Ready.
package crashloop

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// shortest is the kubelet's first pause before it starts a container again. A container
	// that has not run for so long has not shown that it can.
	shortest = 10 * time.Second
	// first is how long a container has to run that has not ended yet, unless a probe says
	// that it is ready. Without one it is Ready as soon as it runs, also one that fails at once,
	// and it takes the kubelet some time to see and to tell that.
	first = 3 * time.Second
	// longest bounds what is asked of a container that ended after it had run for long.
	longest = time.Minute
)

// Record is how often a container has ended, and how the last time.
type Record struct {
	Container string
	Times     int32
	Last      *corev1.ContainerStateTerminated
	// Running says whether it runs again, since Since.
	Running bool
	Since   time.Time
}

// Of reads a container's status. It is false for a container that has not ended, one that
// is done, and one of which it is not known how it ended.
func Of(status corev1.ContainerStatus) (Record, bool) {
	r := Record{Container: status.Name, Times: status.RestartCount, Last: status.LastTerminationState.Terminated}
	switch state := status.State; {
	case state.Running != nil:
		r.Running, r.Since = true, state.Running.StartedAt.Time
	case state.Terminated != nil:
		r.Times, r.Last = r.Times+1, state.Terminated
		if state.Terminated.ExitCode == 0 {
			return Record{}, false
		}
	default:
		r.Times++ // the end that the pause follows is not counted before the next start
	}
	if r.Last == nil || r.Times == 0 {
		return Record{}, false
	}
	return r, true
}

// Starting is how much longer a container that has not ended yet has to run before its being
// Ready counts; probed says that a readiness probe has told. It is 0 for one that has run for
// a moment, and where the node's clock and the given time are too far apart to tell.
func Starting(status corev1.ContainerStatus, probed bool, now time.Time) time.Duration {
	if probed || status.RestartCount > 0 || status.State.Running == nil {
		return 0
	}
	return left(first, now.Sub(status.State.Running.StartedAt.Time))
}

// Unproven is how much longer the container has to run before its being Ready counts: until
// it has outlived its last run, if that was no longer than a minute. It is 0 for one that
// has, and for one whose node's clock and the given time are too far apart to tell.
func (r Record) Unproven(now time.Time) time.Duration {
	if !r.Running {
		return 0
	}
	return left(min(max(r.Last.FinishedAt.Sub(r.Last.StartedAt.Time), shortest), longest), now.Sub(r.Since))
}

// left is what is left of a time, or 0 if the clocks do not agree.
func left(limit, ran time.Duration) time.Duration {
	if ran >= limit || ran < -limit {
		return 0
	}
	return limit - ran
}

// String is "container agent has ended 2 times, last with exit code 3".
func (r Record) String() string {
	if r.Times == 1 {
		return fmt.Sprintf("container %s has ended once, %s", r.Container, Ending(r.Last))
	}
	return fmt.Sprintf("container %s has ended %d times, last %s", r.Container, r.Times, Ending(r.Last))
}

// Ending says how a container ended.
func Ending(end *corev1.ContainerStateTerminated) string {
	words := fmt.Sprintf("with exit code %d", end.ExitCode)
	if end.Reason != "" && end.Reason != "Error" {
		words += " (" + end.Reason + ")"
	}
	if message := strings.TrimSpace(end.Message); message != "" {
		words += ": " + message
	}
	return words
}
