// SPDX-License-Identifier: Apache-2.0

package simulation

import "slices"

// Shrink looks for a calmer run that violates the same rule, and returns its choices
// and its failure. It makes at most so many runs.
//
// It leaves out steps, as many at a time as it can: a step's choices go together, so
// that those of the others keep their meaning. Then it leaves out single choices and
// lowers the others: 0 is the calm one.
func Shrink(made []int, failure *Failure, settings Settings, runs int) ([]int, *Failure) {
	s := &shrinking{settings: settings, runs: runs, best: slices.Clone(made), failure: failure}
	s.try(made) // to learn where its steps begin
	for before := -1; before != len(s.best) && s.runs > 0; {
		before = len(s.best)
		s.leaveOut(s.stepCuts)
		s.leaveOut(s.choiceCuts)
	}
	s.lower()
	return s.best, s.failure
}

// shrinking is the search for a calmer run.
type shrinking struct {
	settings Settings
	runs     int // that may still be made
	best     []int
	steps    []int // where the steps of best begin
	failure  *Failure
}

// try makes a run and keeps it if it fails for the same reason.
func (s *shrinking) try(tape []int) bool {
	if s.runs == 0 {
		return false
	}
	s.runs--
	run := New(Taped(tape), s.settings)
	found := run.Do()
	if found == nil || found.Rule != s.failure.Rule {
		return false
	}
	s.best, s.steps, s.failure = trimmed(run.Made()), run.begins, found
	return true
}

// leaveOut leaves out one part after the other, from the end: large parts first, then
// smaller ones. cuts are the places between which parts lie.
func (s *shrinking) leaveOut(cuts func() []int) {
	for size := max(1, len(cuts())/2); size > 0 && s.runs > 0; size /= 2 {
		for at := len(cuts()) - 1 - size; at > -size && s.runs > 0; at -= size {
			places := cuts()
			from, to := max(at, 0), at+size
			if to >= len(places) {
				continue
			}
			s.try(slices.Delete(slices.Clone(s.best), places[from], places[to]))
		}
	}
}

// stepCuts are where the steps begin, and the end.
func (s *shrinking) stepCuts() []int {
	within := slices.DeleteFunc(slices.Clone(s.steps), func(at int) bool { return at > len(s.best) })
	return append(within, len(s.best))
}

// choiceCuts are all places.
func (s *shrinking) choiceCuts() []int {
	places := make([]int, len(s.best)+1)
	for i := range places {
		places[i] = i
	}
	return places
}

// lower makes single choices calmer.
func (s *shrinking) lower() {
	for at := 0; at < len(s.best) && s.runs > 0; at++ {
		for _, calmer := range []int{0, s.best[at] / 2, s.best[at] - 1} {
			if at >= len(s.best) || calmer >= s.best[at] || calmer < 0 {
				continue
			}
			tape := slices.Clone(s.best)
			tape[at] = calmer
			if s.try(tape) {
				break
			}
		}
	}
}

// trimmed is a tape without the calm choices at its end, which an ended tape makes
// anyway.
func trimmed(tape []int) []int {
	for len(tape) > 0 && tape[len(tape)-1] == 0 {
		tape = tape[:len(tape)-1]
	}
	return slices.Clone(tape)
}
