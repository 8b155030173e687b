// SPDX-License-Identifier: Apache-2.0

package pool_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/warmpool"
)

func TestAPoolThatIsDeletedAndMadeAgainUnderClaims(t *testing.T) {
	const replicas = 5
	w := newWorld(t, warmpool.Options{})
	w.template("python", nil)
	former := w.full(w.newPool("fast", replicas))
	bound := map[types.UID]string{}
	bind := func(names ...string) {
		t.Helper()
		for _, name := range names {
			c := w.ready(name)
			if other, twice := bound[c.Status.Sandbox.UID]; twice {
				t.Errorf("Sandbox %s is bound to %s and %s", c.Status.Sandbox.Name, other, name)
			}
			bound[c.Status.Sandbox.UID] = name
		}
	}
	for i := range 3 {
		w.claim(fmt.Sprintf("before-%d", i), "fast")
	}
	bind("before-0", "before-1", "before-2")
	w.full(former)
	idle := w.members(former)

	w.must(w.Delete(w.Context(), former, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	// A claim that comes before the controllers know of it may still get a member, and
	// lose it. When the garbage collector has been there, they know.
	w.goneAll(idle)
	for i := range 4 {
		w.claim(fmt.Sprintf("during-%d", i), "fast")
	}
	for i := range 4 {
		c := w.readyAs(fmt.Sprintf("during-%d", i), metav1.ConditionFalse, "WarmPoolNotFound")
		if c.Status.Sandbox.Name != "" {
			t.Errorf("claim %s has %+v although there is no pool", c.Name, c.Status.Sandbox)
		}
	}
	again := w.newPool("fast", replicas)
	bind("during-0", "during-1", "during-2", "during-3")
	w.full(again)

	var left agents.SandboxList
	w.must(w.List(w.Context(), &left, client.InNamespace(w.namespace)))
	kept := 0
	for _, s := range left.Items {
		switch claimed := control.ControllerOf(&s, extensions.GroupVersion.Group, "SandboxClaim"); {
		case claimed != nil && bound[s.UID] == claimed.Name && s.DeletionTimestamp == nil:
			kept++
		case control.IsControlledBy(&s, again.UID):
		default:
			t.Errorf("Sandbox %s of %v, deleted %v, is left", s.Name, s.OwnerReferences, s.DeletionTimestamp)
		}
	}
	if kept != len(bound) || len(bound) != 7 {
		t.Errorf("of %d bound Sandboxes %d are left, want 7", len(bound), kept)
	}
}

func (w *world) goneAll(sandboxes map[string]agents.Sandbox) {
	w.Helper()
	for name := range sandboxes {
		await(w, &agents.SandboxList{}, &agents.Sandbox{ObjectMeta: w.meta(name)}, "Sandbox "+name+" to go", func(_ *agents.Sandbox, there bool) bool { return !there })
	}
}
