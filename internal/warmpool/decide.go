// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/template"
)

// A step is the one thing to do next.
type step interface {
	fmt.Stringer
	isStep()
}

type (
	// confirm reads pool and template from the server before members are deleted for
	// what they say: after a change of leader the cache may be at a point in time
	// before the members were made.
	confirm struct{}
	// deleteMembers deletes members.
	deleteMembers struct {
		members []*agents.Sandbox
		why     string
		// lost says that the members are replaced because they will never be Ready.
		lost bool
	}
	// ensurePolicy brings the template's NetworkPolicy into being, or up to date.
	ensurePolicy struct{}
	// createMembers creates members: those named again, then some of new names.
	createMembers struct {
		again []string
		fresh int
	}
	// writeStatus writes the status.
	writeStatus struct {
		status extensions.SandboxWarmPoolStatus
	}
	// rest waits for the next event, or until a time if that is not zero.
	rest struct {
		why   string
		until time.Time
	}
)

func (confirm) isStep()       {}
func (deleteMembers) isStep() {}
func (ensurePolicy) isStep()  {}
func (createMembers) isStep() {}
func (writeStatus) isStep()   {}
func (rest) isStep()          {}

func (confirm) String() string {
	return "ask the server whether pool and template are what they seem, before members are deleted"
}
func (d deleteMembers) String() string {
	return fmt.Sprintf("delete %s (%s): %s", memberCount(len(d.members)), names(d.members), d.why)
}
func (ensurePolicy) String() string { return "write the template's NetworkPolicy before any member" }
func (c createMembers) String() string {
	if len(c.again) > 0 {
		return fmt.Sprintf("repeat the creation of %s whose outcome is unknown", memberCount(len(c.again)))
	}
	return "create " + memberCount(c.fresh)
}
func (writeStatus) String() string { return "write the pool's status" }
func (r rest) String() string {
	if r.until.IsZero() {
		return "rest: " + r.why
	}
	return fmt.Sprintf("rest until %s: %s", r.until.UTC().Format(time.RFC3339), r.why)
}

// decide returns the one thing to do next.
func decide(seen observed, now time.Time) step {
	if seen.Pool.DeletionTimestamp != nil {
		return rest{why: "the pool is being deleted, and its members with it"}
	}
	s := takeStock(seen, now)
	var wake alarm
	if !s.graceEnd.IsZero() {
		wake.at(s.graceEnd)
	}
	if len(s.held) > 0 {
		wake.at(now.Add(seen.Options.UnschedulableRecheckInterval))
	}
	if failures := seen.Memory.failures(now); failures > 0 {
		wake.at(seen.Memory.Replaced.Add(forgetFailures))
	}
	for _, due := range []func(observed, stock, time.Time, *alarm) step{repeat, thin, fill} {
		if next := due(seen, s, now, &wake); next != nil {
			return next
		}
	}
	return report(seen, s, now, wake)
}

// repeat returns the creates to send again because nobody knows whether they landed,
// or nil. They count as members until that is known.
func repeat(seen observed, s stock, now time.Time, wake *alarm) step {
	// Of a pool that was made smaller meanwhile only as many as it has room for: one more
	// that lands is one too many. The others may never have been sent.
	wanted := min(len(seen.InFlight), s.limit-len(s.live)-s.terminating)
	if wanted <= 0 || !mayCreate(seen, now, wake) {
		return nil
	}
	return createMembers{again: seen.InFlight[:min(wanted, seen.Memory.Creates.batch(seen.Options.MaxBatchSize))]}
}

// mayCreate reports whether the server takes members now, as far as is known.
func mayCreate(seen observed, now time.Time, wake *alarm) bool {
	if until := seen.Memory.Creates.until(seen.versions()); now.Before(until) {
		wake.at(until)
		return false
	}
	return seen.Template != nil
}

// thin returns the deletion that is due, or nil.
func thin(seen observed, s stock, now time.Time, wake *alarm) step {
	if until := seen.Memory.Deletes.until(seen.versions()); now.Before(until) {
		wake.at(until)
		return nil
	}
	if len(s.lost) > 0 {
		if until := seen.Memory.replaceFrom(now); now.Before(until) {
			wake.at(until)
		} else {
			return deleteMembers{batch(seen, s.lost), "they will never be Ready", true}
		}
	}
	next := deleteMembers{members: outdated(seen.Pool, s), why: "they are of an older blueprint"}
	if surplus := len(s.live) - s.limit; surplus > 0 && len(next.members) == 0 {
		next = deleteMembers{members: leastUseful(s.live)[:surplus], why: "the pool has more than it should"}
	}
	switch {
	case len(next.members) == 0:
		return nil
	case seen.Memory.Confirmed != seen.versions():
		return confirm{}
	default:
		next.members = batch(seen, next.members)
		return next
	}
}

// leastUseful orders members by who goes first: the not Ready, then the newest.
func leastUseful(members []*agents.Sandbox) []*agents.Sandbox {
	ordered := slices.Clone(members)
	slices.Reverse(ordered) // members come oldest first
	slices.SortStableFunc(ordered, func(a, b *agents.Sandbox) int { return cmp.Compare(rank(a), rank(b)) })
	return ordered
}

func rank(s *agents.Sandbox) int {
	if isReady(s) {
		return 1
	}
	return 0
}

// batch returns as many of the members as are deleted side by side.
func batch(seen observed, members []*agents.Sandbox) []*agents.Sandbox {
	return members[:min(len(members), seen.Memory.Deletes.batch(seen.Options.MaxBatchSize))]
}

// fill returns the creation that is due, or what has to come before it, or nil.
func fill(seen observed, s stock, now time.Time, wake *alarm) step {
	room := s.room()
	if room == 0 || !mayCreate(seen, now, wake) {
		return nil
	}
	switch state := template.StateOf(seen.Policy, seen.Template); {
	case state == template.PolicyMissing, state == template.PolicyDrifted:
		return ensurePolicy{}
	case !state.AllowsSandboxes():
		return nil
	}
	if delayed := seen.Memory.Dropped.Add(seen.Options.ReplenishDelay); now.Before(delayed) {
		wake.at(delayed)
		return nil
	}
	allowed, next := seen.Memory.allowance(seen.Options.MaxRefillRate, now)
	if allowed == 0 {
		wake.at(next)
		return nil
	}
	return createMembers{fresh: min(room, allowed, pace(seen, s), seen.Memory.Creates.batch(seen.Options.MaxBatchSize))}
}

// besideBinding is how many members are created side by side while claims are being
// bound.
const besideBinding = 8

// pace is how many members may be created side by side. Claims that find a ready member
// are bound first: the pool is refilled beside them at a walk. It is never held up
// altogether, or a steady stream of claims would empty it.
func pace(seen observed, s stock) int {
	if seen.Binding > 0 && s.ready >= seen.Binding {
		return besideBinding
	}
	return math.MaxInt
}

// alarm is the earliest of the times it is set to.
type alarm struct{ time time.Time }

func (a *alarm) at(t time.Time) {
	if a.time.IsZero() || t.Before(a.time) {
		a.time = t
	}
}
