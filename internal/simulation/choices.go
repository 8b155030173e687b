// SPDX-License-Identifier: Apache-2.0

package simulation

import "math/rand/v2"

// Choices decides everything a run leaves open. A run asks for one choice after the
// other; a seed answers them at random, a tape answers them as an earlier run did.
// Choice 0 is always the calm one: no fault, the oldest thing first. A tape that has
// ended answers 0, so that a shorter tape is a calmer run.
type Choices struct {
	random *rand.Rand // nil on a tape
	tape   []int
	made   []int
}

// Seeded returns choices that are random but the same for the same seed.
func Seeded(seed uint64) *Choices {
	return &Choices{random: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
}

// Taped returns the choices on a tape, which Made returned.
func Taped(tape []int) *Choices { return &Choices{tape: tape} }

// Pick returns a choice from 0 to n-1.
func (c *Choices) Pick(n int) int {
	if n <= 1 {
		return 0 // nothing to choose, and nothing to remember
	}
	choice := 0
	switch {
	case c.random != nil:
		choice = c.random.IntN(n)
	case len(c.made) < len(c.tape):
		choice = c.tape[len(c.made)] % n
	}
	c.made = append(c.made, choice)
	return choice
}

// Chance is true once in n times, and never on an ended tape.
func (c *Choices) Chance(n int) bool { return c.Pick(n) == n-1 }

// Made returns the choices made so far.
func (c *Choices) Made() []int { return c.made }
