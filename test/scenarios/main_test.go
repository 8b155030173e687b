// SPDX-License-Identifier: Apache-2.0

// Package scenarios replays, on real pods, the incidents that people have had with
// sandboxes on Kubernetes. Each scenario says what it does with the commands that a person
// would type, shows what one sees, says what went wrong elsewhere, and checks that it does
// not here. "make scenario" lists them, "make scenario NAME=..." runs one.
package scenarios

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// scenario is one incident.
type scenario struct {
	name string // for NAME=
	line string // what goes wrong elsewhere
	play func(*testing.T, *stage)
}

// scenarios are all of them, in the order they run.
func scenarios() []scenario {
	return []scenario{
		{"template-change", "a new pod template never reaches the running pod, and nobody is told", templateChange},
		{"three-am", "a burst of claims gets the same warm pod twice while the controller's watches lag", threeAM},
		{"stuck-loop", "a Sandbox whose pod is gone loops in an error until its annotation is cleared", stuckLoop},
		{"rollover", "a claim gets a warm pod of the template as it was before the edit", rollover},
		{"lost-restart", "an operator's restart gets lost between its writes and a cache that lags", lostRestart},
		{"two-pods", "two pods back one Sandbox, and both do the work", twoPods},
		{"slow-stop", "an agent whose container takes its time to stop is restarted too early, twice, or never", slowStop},
		{"wiped-config", "a claim wipes what an operator writes into its Sandbox's pod template, forever", wipedConfig},
		{"claimed-agent", "an AgentRuntime and a claim write to one Sandbox in turn, without end", claimedAgent},
		{"already-exists", "a Sandbox that was made already makes its claim fail and wait", alreadyExists},
		{"slow-nodes", "warm pods that wait for a node are taken for dead and made anew, again and again", slowNodes},
	}
}

func TestMain(m *testing.M) {
	list := flag.Bool("scenarios", false, "list the scenarios and run nothing")
	flag.Parse()
	if *list {
		for _, s := range scenarios() {
			fmt.Printf("  make scenario NAME=%-16s %s\n", s.name, s.line)
		}
		return
	}
	os.Exit(m.Run())
}

// TestScenario plays the scenarios one after the other, on one cluster with one
// controller.
func TestScenario(t *testing.T) {
	log.SetLogger(logr.Discard())
	stage := newStage(t)
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) { s.play(t, stage) })
	}
}
