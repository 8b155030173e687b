// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/leader"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

// seedVariable chooses other moments to kill at.
const seedVariable = "BERTH_CRASH_SEED"

func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(1)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d", seedVariable, n)
	return n
}

// moments are steps, in order, of those that a burst takes.
func moments(t *testing.T, kills, steps int) []int {
	all := rand.New(rand.NewPCG(seed(t), 0)).Perm(steps)[:kills]
	slices.Sort(all)
	return all
}

func TestClaimsAreBoundOnceHoweverOftenTheControllersAreKilled(t *testing.T) {
	const claims, replicas, kills = 200, 20, 10
	s := newStage(t)
	pool := s.pool("python", replicas)
	seen := s.watch()
	running := s.start("--leader-elect=false")
	s.settled(seen, 0)

	// A claim takes three steps at least: a Sandbox is made for it or adopted, it is
	// bound, and a pod is made for it or for the successor.
	begin := seen.Steps()
	made := s.burst(pool.Name, claims)
	for _, moment := range moments(t, kills, 3*claims-replicas) {
		s.reach(seen, begin+moment)
		running.Kill()
		t.Logf("killed at step %d, with %d of the claims bound", seen.Steps()-begin, seen.Bound())
		running = s.start("--leader-elect=false")
	}
	made()
	s.settled(seen, claims)
}

func TestAStandbyTakesOverFromALeaderThatIsKilled(t *testing.T) {
	const claims, replicas, kills = 60, 10, 2
	s := newStage(t)
	pool := s.pool("python", replicas)
	seen := s.watch()
	flags := []string{"--leader-elect", "--leader-election-namespace=" + deploy.Namespace}
	leading := s.start(flags...)
	s.settled(seen, 0)

	first := s.leader()
	begin := seen.Steps()
	made := s.burst(pool.Name, claims)
	for _, moment := range moments(t, kills, 2*claims) {
		standby := s.start(flags...)
		s.reach(seen, begin+moment)
		leading.Kill()
		t.Logf("killed at step %d, with %d of the claims bound", seen.Steps()-begin, seen.Bound())
		leading = standby
	}
	made()
	s.settled(seen, claims)
	if last := s.leader(); last == first {
		t.Errorf("the first leader %s still leads", first)
	}
}

// leader waits until somebody leads, and returns who.
func (s *stage) leader() string {
	s.Helper()
	c, err := coordinationclient.NewForConfig(clustertest.RESTConfig(s.T, cluster, "test"))
	s.must(err)
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	watcher, err := c.Leases(deploy.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + leader.LeaseName})
	s.must(err)
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		lease, ok := event.Object.(*coordinationv1.Lease)
		if !ok {
			continue
		}
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
			return holder
		}
	}
	s.Fatal("nobody leads")
	return ""
}
