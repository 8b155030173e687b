// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
)

// What each operation costs when nothing goes wrong, request by request.
func TestWritesOfEachOperation(t *testing.T) {
	run := New(Taped(nil), Settings{}) // every choice is the calm one
	run.chooseFocus()
	run.replicas = []*replica{{run: run, name: "A", clock: &skewed{clock: run.clock}}}
	run.replicas[0].start()
	run.elect(run.replicas[0])
	defer run.end()
	w := &run.world
	w.templates, w.pools = []string{"t0"}, []string{"p0"}

	edit := func(resource, name string, change func(client.Object)) func() {
		return func() {
			if err := run.server.Edit(resource, key(name), change); err != nil {
				t.Fatal(err)
			}
		}
	}
	mode := func(mode agents.OperatingMode) func(client.Object) {
		return func(obj client.Object) { obj.(*agents.Sandbox).Spec.OperatingMode = mode }
	}
	for _, operation := range []struct {
		name string
		do   func()
		cost map[string]int
	}{
		{"a pool of one member", func() { w.createTemplate(run, "t0"); w.createPool(run, "p0") }, map[string]int{
			"template: patch sandboxtemplates": 1, "template: create networkpolicies": 1, "warmpool: create networkpolicies": 1,
			"warmpool: create sandboxes": 1, "warmpool: patch status of sandboxwarmpools": 2,
			"sandbox: create pods": 1, "sandbox: patch status of sandboxes": 2,
		}},
		{"a claim that is served warm, and the refill", func() { w.createClaimNamed(run, "c0") }, map[string]int{
			"claim: patch sandboxes": 1, "claim: patch status of sandboxclaims": 1, "sandbox: patch pods": 1,
			"warmpool: create sandboxes": 1, "warmpool: patch status of sandboxwarmpools": 2,
			"sandbox: create pods": 1, "sandbox: patch status of sandboxes": 2,
		}},
		{"a look at everything", func() { run.lookAgain(func(string, client.Object) bool { return true }) }, map[string]int{}},
		{"the deletion of the claim", func() {
			_, _, err := run.server.Delete("sandboxclaims", key("c0"), consistent.DeleteCondition{})
			if err != nil {
				t.Fatal(err)
			}
		}, map[string]int{}},
		{"a Sandbox", func() { w.createSandboxNamed(run, "s0") }, map[string]int{
			"sandbox: create pods": 1, "sandbox: patch sandboxes": 1, "sandbox: patch status of sandboxes": 2,
		}},
		{"a Sandbox is suspended", edit("sandboxes", "s0", mode(agents.OperatingModeSuspended)), map[string]int{
			"sandbox: delete pods": 1, "sandbox: patch status of sandboxes": 2,
		}},
		{"a Sandbox is resumed", edit("sandboxes", "s0", mode(agents.OperatingModeRunning)), map[string]int{
			"sandbox: create pods": 1, "sandbox: patch status of sandboxes": 2,
		}},
		{"a pool is emptied", edit("sandboxwarmpools", "p0", func(obj client.Object) {
			obj.(*extensions.SandboxWarmPool).Spec.Replicas = ptr.To(int32(0))
		}), map[string]int{"warmpool: delete sandboxes": 1, "warmpool: patch status of sandboxwarmpools": 2}},
	} {
		run.watch.budget = budget{}
		operation.do()
		run.rest(10 * time.Second)
		if run.failure != nil {
			t.Fatal(run.failure)
		}
		for request, n := range run.watch.budget.by {
			if n > operation.cost[request] {
				t.Errorf("%s: %d times %q, want at most %d of %v", operation.name, n, request, operation.cost[request], maps.Clone(operation.cost))
			}
		}
		if len(operation.cost) > 0 && run.watch.budget.writes == 0 {
			t.Errorf("%s: nothing was written", operation.name)
		}
	}
}
