// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"testing"

	"github.com/berthdev/berth/internal/simulation"
)

// agentSettings are those of the runs about AgentRuntimes.
var agentSettings = simulation.Settings{Steps: 400, World: simulation.Agents}

// TestAgentSimulation is TestSimulation of the world of AgentRuntimes.
func TestAgentSimulation(t *testing.T) {
	simulate(t, keptSeeds(t, "testdata/agentseeds.txt"), number("SEEDS", 500), agentSettings)
}
