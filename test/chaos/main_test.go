// SPDX-License-Identifier: Apache-2.0

// Package chaos_test runs two replicas of the controllers' program, lets people claim
// sandboxes in bursts, and breaks everything meanwhile: the replicas, their connections,
// the API server, the store and the nodes. Nobody may notice more than a delay.
package chaos_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager/managertest"
	"github.com/berthdev/berth/internal/replica"
)

var (
	cluster *localcluster.Cluster
	program string // the controllers' program
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	klog.SetLogger(logr.Discard()) // client-go tells of every connection that breaks
	log.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "berth-chaos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program, err = replica.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return clustertest.Main(m, &cluster, clustertest.WithScheduler())
}

func TestChaos(t *testing.T) {
	rounds, seed := number(t, "ROUNDS", 1), number(t, "SEED", 1)
	managertest.Install(t, cluster)
	if err := cluster.FakeNodes(context.Background(), 3); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	defer s.summary()
	for round := range rounds {
		s.round(seed, round+1)
	}
}
