// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"os"
	"testing"

	"github.com/berthdev/berth/internal/simulation"
)

// Every known bug of the field is noticed within MUTATION_SEEDS runs. It takes a while,
// so it is for "make sim-mutations".
func TestMutations(t *testing.T) {
	most := number("MUTATION_SEEDS", 0)
	if most == 0 {
		t.Skip("MUTATION_SEEDS is not set")
	}
	for _, mutation := range simulation.Mutations() {
		t.Run(string(mutation), func(t *testing.T) {
			mutated := settings
			mutated.Mutation = mutation
			for seed := range most {
				failure := simulation.New(simulation.Seeded(uint64(seed)), mutated).Do()
				if failure == nil {
					continue
				}
				t.Logf("noticed by seed %d: %s: %s", seed, failure.Rule, failure.What)
				if os.Getenv("TRACE") != "" {
					t.Log(failure)
				}
				return
			}
			t.Errorf("not noticed in %d runs", most)
		})
	}
}
