// SPDX-License-Identifier: Apache-2.0

package simulation

import "time"

// Clock is the time of a run, which only the run moves.
type Clock struct{ now time.Time }

// NewClock starts at a fixed moment.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)}
}

// Now implements clock.PassiveClock.
func (c *Clock) Now() time.Time { return c.now }

// Since implements clock.PassiveClock.
func (c *Clock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

func (c *Clock) advance(to time.Time) {
	if to.After(c.now) {
		c.now = to
	}
}

// skewed is the clock of a replica, which may be wrong by a constant.
type skewed struct {
	clock *Clock
	by    time.Duration
}

func (s *skewed) Now() time.Time                  { return s.clock.Now().Add(s.by) }
func (s *skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }
