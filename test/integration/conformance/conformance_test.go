// SPDX-License-Identifier: Apache-2.0

// Package conformance holds the simulator's API server against a real one: the same
// operations are done to both, and what they answer is the same.
//
// The answers of the real server are in testdata, so that the simulated one is held to
// them wherever its code changes; -update writes them down anew.
package conformance

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager/managertest"
)

var update = flag.Bool("update", false, "write down what the real server answers")

var answersFile = filepath.Join("testdata", "answers.txt")

// done does an operation to a server and returns what it answered.
func done(t *testing.T, op operation, on server) []string {
	t.Helper()
	s := &session{t: t, server: on, objects: map[string]client.Object{}}
	op.do(s)
	if len(s.lines) < 2 {
		t.Errorf("the operation asks nothing: %v", s.lines)
	}
	return s.lines
}

// known are the answers of the real server by operation.
func known(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(answersFile)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		name, lines, _ := strings.Cut(part, "\n")
		answers[name] = lines
	}
	return answers
}

func indented(lines []string) string { return "\t" + strings.Join(lines, "\n\t") }

func TestSimulatedServer(t *testing.T) {
	answers := known(t)
	for _, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			want, ok := answers[op.name]
			if got := indented(done(t, op, newSimulated())); !ok || got != want {
				t.Errorf("the simulated server:\n%s\nthe real one:\n%s", got, want)
			}
		})
	}
	if len(answers) != len(operations) {
		t.Errorf("%d answers are known, of %d operations", len(answers), len(operations))
	}
}

func TestRealServer(t *testing.T) {
	cluster := clustertest.ControlPlane(t, clustertest.WithControllerManager())
	managertest.Install(t, cluster)
	connected := connect(t, clustertest.RESTConfig(t, cluster, "conformance"))
	var text bytes.Buffer
	var answers map[string]string
	if !*update {
		answers = known(t)
	}
	for n, op := range operations {
		t.Run(op.name, func(t *testing.T) {
			got := indented(done(t, op, newReal(t, connected, n)))
			fmt.Fprintf(&text, "%s\n%s\n\n", op.name, got)
			if !*update && got != answers[op.name] {
				t.Errorf("the real server answers\n%s\nand answered\n%s", got, answers[op.name])
			}
		})
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(answersFile, append(bytes.TrimSpace(text.Bytes()), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
