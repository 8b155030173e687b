// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/internal/demo"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

// demoPatience ends the test when it hangs; building the controller takes the largest share.
const demoPatience = 25 * time.Minute

func TestTheDemoClaimsSandboxesOnRealPods(t *testing.T) {
	cluster := clustertest.Node(t)
	ctx, cancel := context.WithTimeout(t.Context(), demoPatience)
	defer cancel()
	show := func(t *testing.T) string {
		t.Helper()
		var told strings.Builder
		err := demo.Run(ctx, demo.Options{
			Kubeconfig: cluster.Kubeconfig(), Local: cluster, Out: &told, Progress: localcluster.NewPlainProgress(t.Output()),
		})
		t.Log(told.String())
		if err != nil {
			t.Fatal(err)
		}
		return told.String()
	}
	for _, run := range []string{"on a new cluster", "a second time"} {
		t.Run(run, func(t *testing.T) {
			told := show(t)
			for _, want := range []string{"3/3 ready", "demo-first: sandbox shells-", "Hello from pod shells-", "demo-second: sandbox shells-"} {
				if !strings.Contains(told, want) {
					t.Errorf("it does not tell of %q", want)
				}
			}
			if count := strings.Count(told, "which waited in the pool"); count != 2 {
				t.Errorf("%d of 2 sandboxes waited in the pool", count)
			}
		})
	}
}
