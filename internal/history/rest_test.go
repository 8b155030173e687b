// SPDX-License-Identifier: Apache-2.0

package history

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

func readySandbox(s *agents.Sandbox) *agents.Sandbox {
	s = s.DeepCopy()
	s.Status.PodIPs = []string{"10.0.0.1"}
	s.Status.Conditions = []metav1.Condition{{Type: agents.ConditionReady, Status: metav1.ConditionTrue, Reason: agents.ReasonDependenciesReady}}
	return s
}

func readyClaim(c *extensions.SandboxClaim, sandbox string) *extensions.SandboxClaim {
	c = bound(c, sandbox)
	c.Status.Sandbox.PodIPs = []string{"10.0.0.1"}
	c.Status.Conditions = []metav1.Condition{{Type: agents.ConditionReady, Status: metav1.ConditionTrue, Reason: agents.ReasonDependenciesReady}}
	return c
}

// rested is a claim with its Sandbox, and a full pool.
func rested() world {
	w := begun(extensions.WarmPoolRecreate)
	w.put(readySandbox(ownedBy(aMember("m"), "c")))
	w.put(readyClaim(aClaim("c"), "m"))
	w.put(readySandbox(aMember("n")))
	w.put(aPod("n", "n"))
	pool := aPool(extensions.WarmPoolRecreate)
	pool.Status.Replicas, pool.Status.ReadyReplicas = 1, 1
	w.put(pool)
	return w
}

func TestWhatIsMissingForEverythingToBeInOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		happens func(world)
		left    string
	}{
		{"nothing", func(world) {}, ""},
		{"a Sandbox has no pod", func(w world) { w.gone(aPod("n", "n")) }, "Sandbox n has 0 pods"},
		{"a pod is left over", func(w world) { w.put(aPod("left", "gone")) }, "pods left outlives its controller"},
		{"a Sandbox is left over", func(w world) { w.gone(aClaim("c")) }, "sandboxes m outlives its controller"},
		{"a pod is still going", func(w world) { w.going(aPod("n", "n")) }, "pods n is still being deleted"},
		{"a Sandbox says nothing", func(w world) { w.put(aMember("n")) }, "Sandbox n has no Ready condition"},
		{"a Sandbox says Ready and its pod is not", func(w world) {
			pod := aPod("n", "n")
			pod.Status.Conditions = nil
			w.put(pod)
		}, "Sandbox n: Ready is True"},
		{"a claim waits for nothing", func(w world) { w.put(saying(aClaim("d"), extensions.ReasonSandboxNotReady)) }, "nothing keeps it from being bound"},
		{"a claim says why it is not bound", func(w world) { w.put(saying(aClaim("d"), extensions.ReasonInvalidMetadata)) }, ""},
		{"a claim has other addresses", func(w world) {
			claim := readyClaim(aClaim("c"), "m")
			claim.Status.Sandbox.PodIPs = nil
			w.put(claim)
		}, "it has not its Sandbox's addresses"},
		{"a claim says what its Sandbox does not", func(w world) {
			claim := saying(readyClaim(aClaim("c"), "m"), extensions.ReasonSandboxNotReady)
			w.put(claim)
		}, "it does not say what its Sandbox says"},
		{"a pool is not full", func(w world) {
			pool := aPool(extensions.WarmPoolRecreate)
			pool.Spec.Replicas = ptr.To[int32](2)
			w.put(pool)
		}, "pool p has 1 members, 1 ready, not 2"},
		{"a pool says what is not so", func(w world) { w.put(aPool(extensions.WarmPoolRecreate)) }, "pool p says 0 members"},
		{"a member is of an older blueprint", func(w world) { w.put(aTemplate("two")) }, "of an older blueprint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := rested()
			c.happens(w)
			if left := w.Unsettled(); c.left == "" && left != "" || !strings.Contains(left, c.left) {
				t.Errorf("what is left is %q, want %q", left, c.left)
			}
		})
	}
}
