// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/simulation"
)

// settings of the runs whose seeds are kept: a seed means the same run only as long as
// these, and the simulator, stay as they are.
var settings = simulation.Settings{Steps: 400}

// TestSimulation runs the controllers through the kept seeds and through SEEDS others,
// from SEED_START on. -run TestSimulation/seed=N runs one of them.
func TestSimulation(t *testing.T) {
	simulate(t, keptSeeds(t, "testdata/seeds.txt"), number("SEEDS", 2000), settings)
}

// simulate makes runs of the kept seeds and of so many others.
func simulate(t *testing.T, seeds []uint64, count int, settings simulation.Settings) {
	t.Helper()
	start := number("SEED_START", 1)
	for seed := start; seed < start+count; seed++ {
		seeds = append(seeds, uint64(seed))
	}
	if only := regexp.MustCompile(`seed=(\d+)`).FindStringSubmatch(flag.Lookup("test.run").Value.String()); only != nil {
		seed, err := strconv.ParseUint(only[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range failing(seeds, settings) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			run := simulation.New(simulation.Seeded(seed), settings)
			failure := run.Do()
			if failure == nil {
				t.Fatal("failed once, and not again: the simulator is not deterministic")
			}
			_, smallest := simulation.Shrink(run.Made(), failure, settings, number("SHRINK", 300))
			t.Errorf("%v\n\nthe same, shrunk:\n%v", failure, smallest)
		})
	}
}

// TestMain lets garbage lie for longer: runs make much of it and keep little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// failing returns the seeds that fail, at most a few, in order.
func failing(seeds []uint64, settings simulation.Settings) []uint64 {
	var (
		next, done atomic.Int64
		mu         sync.Mutex
		failed     []uint64
		workers    sync.WaitGroup
		began      = time.Now()
		most       = number("FAILURES", 3)
	)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= len(seeds) {
					return
				}
				failure := simulation.New(simulation.Seeded(seeds[n]), settings).Do()
				if done := done.Add(1); os.Getenv("PROGRESS") != "" && done%100 == 0 {
					fmt.Fprintf(os.Stderr, "\r%7d of %d runs, %4.0f a second ", done, len(seeds), float64(done)/time.Since(began).Seconds())
				}
				mu.Lock()
				if failure != nil {
					failed = append(failed, seeds[n])
				}
				enough := len(failed) >= most
				mu.Unlock()
				if enough {
					return
				}
			}
		})
	}
	workers.Wait()
	if os.Getenv("PROGRESS") != "" {
		fmt.Fprintf(os.Stderr, "\r%7d of %d runs, %4.0f a second\n", done.Load(), len(seeds), float64(done.Load())/time.Since(began).Seconds())
	}
	slices.Sort(failed)
	return failed
}

// keptSeeds are those that once found something.
func keptSeeds(t *testing.T, in string) []uint64 {
	t.Helper()
	file, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var seeds []uint64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		seed, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

// A seed is the same run every time, byte for byte.
func TestARunIsTheSameEveryTime(t *testing.T) {
	for seed := range uint64(10) {
		first := simulation.New(simulation.Seeded(seed), settings)
		first.Do()
		second := simulation.New(simulation.Seeded(seed), settings)
		second.Do()
		if a, b := first.Trace(), second.Trace(); !slices.Equal(a, b) {
			for i := range a {
				if i >= len(b) || a[i] != b[i] {
					t.Fatalf("seed %d, line %d: %s\nthen: %s", seed, i, a[i], b[min(i, len(b)-1)])
				}
			}
			t.Fatalf("seed %d: %d lines, then %d", seed, len(a), len(b))
		}
		taped := simulation.New(simulation.Taped(first.Made()), settings)
		taped.Do()
		if !slices.Equal(first.Trace(), taped.Trace()) {
			t.Fatalf("seed %d: its tape is another run", seed)
		}
	}
}

// A shrunk run fails for the same reason in fewer steps, and its tape repeats it.
func TestAFailureIsShrunk(t *testing.T) {
	broken := settings
	broken.Mutation = simulation.ForgetTerminating
	var run *simulation.Run
	var failure *simulation.Failure
	for seed := uint64(1); failure == nil; seed++ {
		run = simulation.New(simulation.Seeded(seed), broken)
		failure = run.Do()
	}
	tape, smallest := simulation.Shrink(run.Made(), failure, broken, 100)
	if smallest.Rule != failure.Rule || len(tape) >= len(run.Made()) {
		t.Errorf("%d choices and %d lines became %d and %d, and %q became %q", len(run.Made()), len(failure.Trace), len(tape), len(smallest.Trace), failure.Rule, smallest.Rule)
	}
	again := simulation.New(simulation.Taped(tape), broken).Do()
	if again == nil || !slices.Equal(again.Trace, smallest.Trace) {
		t.Error("the tape of the shrunk run is another run")
	}
}

// number is an environment variable.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
