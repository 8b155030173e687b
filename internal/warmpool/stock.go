// SPDX-License-Identifier: Apache-2.0

package warmpool

import (
	"time"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
)

// stock is what a pool has, sorted by what is to become of it.
type stock struct {
	// desired is spec.replicas, and limit how many members there may be at a time.
	desired, limit int
	// live are the members that are not terminating.
	live        []*agents.Sandbox
	terminating int
	inFlight    int
	// ready counts live members that are Ready and can be handed out.
	ready int
	// updated counts live members of the template's present blueprint.
	updated int
	// lost are live members that will never be Ready: finished, tampered with, or not
	// Ready in time without an explanation.
	lost []*agents.Sandbox
	// stale are live members of an older blueprint that the strategy replaces.
	stale []*agents.Sandbox
	// held are live members that are not Ready in time, and why.
	held []held
	// graceEnd is when the next member's grace ends, zero if no grace is running.
	graceEnd time.Time
}

type held struct{ member, why string }

// takeStock sorts the members of a pool.
func takeStock(seen observed, now time.Time) stock {
	s := stock{desired: int(seen.Pool.DesiredReplicas()), inFlight: len(seen.InFlight)}
	for _, member := range seen.Members {
		if member.DeletionTimestamp != nil {
			s.terminating++
			continue
		}
		s.live = append(s.live, member)
		s.sort(seen, member, now)
	}
	s.limit = s.desired + surge(seen.Pool, s)
	return s
}

func (s *stock) sort(seen observed, member *agents.Sandbox, now time.Time) {
	fresh := seen.Blueprint != nil && seen.Blueprint.Matches(member)
	if fresh {
		s.updated++
	}
	ready := isReady(member)
	if ready && blueprint.Intact(member) {
		s.ready++
	}
	switch {
	case isFinished(member), !blueprint.Intact(member):
		s.lost = append(s.lost, member)
		return
	case !ready && now.Before(graceEnd(member, seen.Options)):
		s.inGrace(graceEnd(member, seen.Options))
	case !ready:
		pods := seen.Pods[member.UID]
		why, end := explain(member, pods), progressed(pods).Add(seen.Options.ReadinessGracePeriod)
		switch {
		case why != "":
			s.held = append(s.held, held{member.Name, why})
		case now.Before(end):
			s.inGrace(end)
		default:
			s.lost = append(s.lost, member)
			return
		}
	}
	if seen.Blueprint != nil && !fresh && seen.Pool.UpdateStrategyType() != extensions.WarmPoolOnReplenish {
		s.stale = append(s.stale, member)
	}
}

// inGrace takes down that a member's grace ends then.
func (s *stock) inGrace(end time.Time) {
	if s.graceEnd.IsZero() || end.Before(s.graceEnd) {
		s.graceEnd = end
	}
}

// total is how many members there are or may be.
func (s stock) total() int { return len(s.live) + s.terminating + s.inFlight }

// room is how many members may be added. During a rolling update that is never more
// than will stay, because limit is above desired by no more than the stale members.
func (s stock) room() int { return max(0, s.limit-s.total()) }
