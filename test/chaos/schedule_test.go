// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// span is the time in which things happen in a round.
const span = 40 * time.Second

// schedule is what happens in one round.
type schedule struct {
	events []event
	bursts []burst
}

// event is one fault.
type event struct {
	kind  *kind
	at    time.Duration
	lasts time.Duration
	dice  uint32 // chooses the rest
}

// burst is a number of claims that are made at once.
type burst struct {
	at      time.Duration
	name    string
	pool    string
	claims  int
	release int // every so many claims one is released as soon as it was used
	refused int // this claim asks for what it cannot have
}

// extra is how many faults there are beyond one of each kind.
const extra = 6

// newSchedule is the schedule of a round: the same for the same seed.
func newSchedule(seed, round int) *schedule {
	r := rand.New(rand.NewPCG(uint64(seed), uint64(round)))
	s := &schedule{}
	for i := range len(kinds) + extra {
		k := &kinds[i%len(kinds)]
		if i >= len(kinds) {
			k = &kinds[r.IntN(len(kinds))]
		}
		s.events = append(s.events, event{kind: k, at: within(r, 0, span), lasts: within(r, k.least, k.most), dice: r.Uint32()})
	}
	slices.SortFunc(s.events, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range s.events { // a leader that is paused is in the middle of something
		if e.kind.name == paused {
			s.bursts = append(s.bursts, newBurst(r, fmt.Sprintf("c%d-p%d", round, len(s.bursts)), max(0, e.at-100*time.Millisecond)))
		}
	}
	for i := range 5 {
		s.bursts = append(s.bursts, newBurst(r, fmt.Sprintf("c%d-%d", round, i), within(r, 0, span)))
	}
	slices.SortFunc(s.bursts, func(a, b burst) int { return int(a.at - b.at) })
	return s
}

func newBurst(r *rand.Rand, name string, at time.Duration) burst {
	pools := []string{"shared", "strict", "rolling"}
	b := burst{at: at, name: name, pool: pools[r.IntN(len(pools))], claims: 4 + r.IntN(14), release: 2 + r.IntN(3), refused: -1}
	if r.IntN(2) == 0 {
		b.refused = r.IntN(b.claims)
	}
	return b
}

// within draws a time.
func within(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1)).Round(time.Millisecond)
}

func (s *schedule) String() string {
	var text strings.Builder
	for _, b := range s.bursts {
		fmt.Fprintf(&text, "%7.1fs  %d claims %s-… on pool %s\n", b.at.Seconds(), b.claims, b.name, b.pool)
	}
	for _, e := range s.events {
		fmt.Fprintf(&text, "%7.1fs  %s, %.1fs, %d\n", e.at.Seconds(), e.kind.name, e.lasts.Seconds(), e.dice)
	}
	return text.String()
}

func TestASeedChoosesTheSchedule(t *testing.T) {
	if one, same := newSchedule(3, 2).String(), newSchedule(3, 2).String(); one != same {
		t.Errorf("the same seed gave\n%s\nand\n%s", one, same)
	}
	for _, other := range []*schedule{newSchedule(4, 2), newSchedule(3, 3)} {
		if one := newSchedule(3, 2).String(); one == other.String() {
			t.Errorf("two seeds gave\n%s", one)
		}
	}
}
