// SPDX-License-Identifier: Apache-2.0

package simulation

import "slices"

// Shrink looks for a calmer run that violates the same invariant, and returns its
// choices and its failure. It makes at most so many runs.
func Shrink(made []int, failure *Failure, settings Settings, runs int) ([]int, *Failure) {
	best := slices.Clone(made)
	try := func(tape []int) bool {
		if runs == 0 {
			return false
		}
		runs--
		run := New(Taped(tape), settings)
		found := run.Do()
		if found == nil || found.Rule != failure.Rule {
			return false
		}
		best, failure = trimmed(run.Made()), found
		return true
	}
	for progress := true; progress && runs > 0; {
		progress = false
		for size := max(1, len(best)/2); size > 0 && runs > 0; size /= 2 {
			for at := len(best) - size; at >= 0 && runs > 0; at -= size {
				if at+size > len(best) {
					continue
				}
				calmer := slices.Clone(best)
				clear(calmer[at : at+size])
				if slices.Equal(calmer, best) {
					continue
				}
				shorter := slices.Delete(slices.Clone(best), at, at+size)
				progress = try(shorter) || try(calmer) || progress
			}
		}
	}
	return best, failure
}

// trimmed is a tape without the calm choices at its end, which an ended tape makes
// anyway.
func trimmed(tape []int) []int {
	for len(tape) > 0 && tape[len(tape)-1] == 0 {
		tape = tape[:len(tape)-1]
	}
	return slices.Clone(tape)
}
