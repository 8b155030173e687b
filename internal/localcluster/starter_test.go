// SPDX-License-Identifier: Apache-2.0

package localcluster_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/berth/internal/localcluster"
)

// starterVariable makes this test binary start a cluster in the directory it names, say so, and wait.
const starterVariable = "BERTH_TEST_STARTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(starterVariable); dir != "" {
		os.Exit(startAndWait(dir))
	}
	os.Exit(m.Run())
}

func startAndWait(dir string) int {
	cluster, err := localcluster.Start(context.Background(), localcluster.Options{Dir: dir, EndWithStarter: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("started")
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println(cluster.Dir())
	return 0
}

func TestAClusterEndsWithAStarterThatIsKilled(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "cluster")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	starter := exec.CommandContext(t.Context(), self)
	starter.Env = append(os.Environ(), starterVariable+"="+dir)
	if _, err := starter.StdinPipe(); err != nil { // held open, so that it waits
		t.Fatal(err)
	}
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "started\n" {
		t.Fatalf("the starter said %q: %v", said, err)
	}
	cluster, err := localcluster.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := localcluster.Sweep(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	if !cluster.Part(localcluster.APIServer).Running() {
		t.Fatal("a sweep ended a cluster whose starter runs")
	}
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait()
	for _, part := range cluster.Status() {
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, generous, true, func(context.Context) (bool, error) {
			return !cluster.Part(part.Name).Running(), nil
		})
		if err != nil {
			t.Errorf("%s runs after its starter was killed", part.Name)
		}
	}
	if err := localcluster.Sweep(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("a sweep left %v of a cluster whose starter was killed: %v", left, err)
	}
}
