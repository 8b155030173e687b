// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/berthdev/berth/internal/simulation"
)

// Every known bug of the field is noticed, by a rule that it breaks. The search begins
// at the seed that noticed it last, so that it is short; where the simulator has changed
// since, it goes on from there. With MUTATION_SEEDS it begins at the first seed and
// tells how many each bug needed, and with KEEP=1 it keeps those seeds.
func TestMutations(t *testing.T) {
	notice(t, simulation.Mutations(), "testdata/mutations.txt", settings)
}

// TestAgentMutations is TestMutations of the controller of AgentRuntimes.
func TestAgentMutations(t *testing.T) {
	notice(t, simulation.AgentMutations(), "testdata/agentmutations.txt", agentSettings)
}

func notice(t *testing.T, mutations []simulation.Mutation, kept string, settings simulation.Settings) {
	t.Helper()
	seeds := mutationSeeds(t, kept)
	most, whole := number("MUTATION_SEEDS", 3000), os.Getenv("MUTATION_SEEDS") != ""
	var table strings.Builder
	for _, mutation := range mutations {
		t.Run(string(mutation), func(t *testing.T) {
			first := seeds[mutation]
			if whole {
				first = 1
			}
			for seed := first; seed < first+uint64(most); seed++ {
				if failure := mutated(seed, mutation, settings); failure != nil {
					fmt.Fprintf(&table, "%-6d %-55s # %s\n", seed, mutation, failure.Rule)
					if os.Getenv("TRACE") != "" {
						t.Log(failure)
					}
					return
				}
			}
			t.Errorf("not noticed in %d runs, from seed %d on", most, first)
		})
	}
	if whole {
		t.Logf("the seeds that were needed, and the rules that noticed\n%s", table.String())
	}
	if os.Getenv("KEEP") != "" {
		text := "# The first seed of " + strconv.Itoa(most) + " that notices each known bug, and by which rule.\n" + table.String()
		if err := os.WriteFile(kept, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// mutated returns the failure of a run if it is the mutation's own.
func mutated(seed uint64, mutation simulation.Mutation, settings simulation.Settings) *simulation.Failure {
	broken := settings
	broken.Mutation = mutation
	failure := simulation.New(simulation.Seeded(seed), broken).Do()
	if failure == nil || !slices.Contains(mutation.NoticedBy(), failure.Rule) {
		return nil
	}
	return failure
}

// mutationSeeds reads the seeds that noticed each mutation.
func mutationSeeds(t *testing.T, from string) map[simulation.Mutation]uint64 {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	seeds := map[simulation.Mutation]uint64{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		number, mutation, _ := strings.Cut(strings.TrimSpace(line), " ")
		if number == "" {
			continue
		}
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds[simulation.Mutation(strings.TrimSpace(mutation))] = seed
	}
	return seeds
}
