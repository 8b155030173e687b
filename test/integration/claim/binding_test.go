// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

func TestFiftyClaimsAtOnceBindFiftySandboxes(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 50)
	warm := map[string]bool{}
	for _, s := range w.sandboxes() {
		warm[s.Name] = true
	}

	all := names("task", 50)
	bound := map[string]string{}
	requests := w.manager.Requests(t, "claim", func() {
		w.claims("python", all...)
		for _, name := range all {
			c := w.ready(name)
			sandbox := c.Status.Sandbox
			if other, twice := bound[sandbox.Name]; twice {
				t.Errorf("Sandbox %s is bound to %s and to %s", sandbox.Name, other, name)
			}
			bound[sandbox.Name] = name
			if !warm[sandbox.Name] || sandbox.UID == "" || len(sandbox.PodIPs) == 0 {
				t.Errorf("claim %s is bound to %+v, want a warm Sandbox with its UID and IP", name, sandbox)
			}
		}
		w.full("python", 50)
	})
	writes := clustertest.Writes(requests)
	// Two writes a claim: the adoption and the binding. A member whose status the
	// Sandbox controller wrote at the same moment costs another try.
	if writes["patch sandboxclaims/status"] != 50 || writes["patch sandboxes"] < 50 || writes["patch sandboxes"] > 60 {
		t.Errorf("writes: %v", writes)
		for _, r := range requests {
			t.Log(r.Received, r, r.Code)
		}
	}
	for _, name := range all {
		if n := w.passes.untilBound(w.key(name)); n != 1 {
			t.Errorf("pass %d of claim %s bound it, want the first", n, name)
		}
		if n := w.passes.of(w.key(name)); n > 3 {
			t.Errorf("claim %s took %d passes, want at most 3", name, n)
		}
	}
	w.ownedOnce(100)
}

// ownedOnce checks that every Sandbox has one pod and every pod one living Sandbox.
func (w *world) ownedOnce(sandboxes int) {
	w.Helper()
	pods := map[types.UID]int{}
	for _, pod := range w.pods() {
		if pod.DeletionTimestamp == nil {
			pods[control.ControllerUID(&pod)]++
		}
	}
	all := w.sandboxes()
	if len(all) != sandboxes {
		w.Errorf("%d Sandboxes, want %d", len(all), sandboxes)
	}
	for _, s := range all {
		if pods[s.UID] != 1 {
			w.Errorf("Sandbox %s has %d pods", s.Name, pods[s.UID])
		}
		delete(pods, s.UID)
	}
	if len(pods) > 0 {
		w.Errorf("pods without a Sandbox: %v", pods)
	}
}

func TestBudgetsOfAWarmClaim(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	pool := w.pool("python", "python", 1)
	counts := map[string]map[string]int{}
	measure := func(during func()) {
		for _, controller := range []string{"claim", "sandbox", "warmpool", "template"} {
			outer := during
			during = func() { counts[controller] = clustertest.Writes(w.manager.Requests(t, controller, outer)) }
		}
		during()
	}

	var bound *extensions.SandboxClaim
	measure(func() {
		w.claim("task", "python")
		bound = w.ready("task")
		await(w, &agents.SandboxList{}, "the next member to be ready", func(s *agents.Sandbox) bool {
			return control.IsControlledBy(s, pool.UID) && meta.IsStatusConditionTrue(s.Status.Conditions, agents.ConditionReady)
		})
		await(w, &corev1.PodList{}, "the pod to carry the claim's UID", func(p *corev1.Pod) bool {
			return p.Name == bound.Status.Sandbox.Name && p.Labels[agents.LabelClaimUID] == string(bound.UID)
		})
	})
	if got := counts["claim"]; got["patch sandboxes"] != 1 || got["patch sandboxclaims/status"] != 1 || len(got) != 2 {
		t.Errorf("a warm claim took %v, want one adoption and one binding", got)
	}
	// One patch of the adopted pod; then the refill: a pod and at most two status writes.
	if got := counts["sandbox"]; got["patch pods"] != 1 || got["create pods"] != 1 || got["patch sandboxes/status"] > 2 || got["patch sandboxes"] != 0 {
		t.Errorf("adoption and refill took %v of the Sandbox controller", got)
	}
	if got := counts["warmpool"]; got["create sandboxes"] != 1 || got["delete sandboxes"] != 0 {
		t.Errorf("the refill took %v of the pool's controller", got)
	}
	if n := w.passes.of(w.key("task")); n > 3 {
		t.Errorf("%d passes, want at most 3", n)
	}

	// What the pool still has to say of the refill it has said once it tells of one more.
	w.must(w.Patch(w.Context(), pool, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))))
	w.full("python", 2)
	measure(func() {
		w.must(w.Delete(w.Context(), bound))
		w.gone(&agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: bound.Status.Sandbox.Name}})
	})
	for controller, writes := range counts {
		if len(writes) > 0 {
			t.Errorf("deleting the claim took %v of the %s controller, want nothing", writes, controller)
		}
	}
}

func TestAMemberIsNeverTakenFromAnotherPoolNamespaceOrOwner(t *testing.T) {
	w := newWorld(t)
	other := w.beside()
	for _, in := range []*world{w, other} {
		in.template("python")
	}
	other.pool("python", "python", 1)
	w.pool("neighbour", "python", 1)
	pool := w.pool("python", "python", 0)

	// A Sandbox that carries every label of a member and belongs to something else.
	impostor := w.sandboxes()[0].DeepCopy()
	impostor.ObjectMeta = metav1.ObjectMeta{
		Namespace: w.namespace, Name: "impostor",
		Labels:          map[string]string{agents.LabelWarmPool: agents.NameHash("python"), agents.LabelTemplateRefHash: agents.NameHash("python"), agents.LabelLaunchType: "warm"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: extensions.GroupVersion.String(), Kind: "SandboxWarmPool", Name: "python", UID: uuid.NewUUID(), Controller: ptr.To(true)}},
	}
	labelled := impostor.DeepCopy()
	labelled.Name, labelled.OwnerReferences = "labelled", nil
	w.must(w.Create(w.Context(), labelled))

	w.claim("task", "python")
	bound := w.ready("task")
	if bound.Status.Sandbox.Name != "task" {
		t.Errorf("the claim of an empty pool got %q, want a Sandbox of its own", bound.Status.Sandbox.Name)
	}
	if bound.Status.Sandbox.UID == "" || pool.UID == "" {
		t.Error("no UID")
	}
	w.full("neighbour", 1)
	other.full("python", 1)
}

func TestForeignAnnotationsOfABoundSandboxSurvive(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", 1)
	w.claim("task", "python")
	bound := w.ready("task")
	sandbox := &agents.Sandbox{}
	w.must(w.Get(w.Context(), w.key(bound.Status.Sandbox.Name), sandbox))

	edit := sandbox.DeepCopy()
	edit.Spec.PodTemplate.Metadata.Annotations = map[string]string{"rossoctl.io/config-hash": "abc"}
	edit.Spec.PodTemplate.Metadata.Labels = map[string]string{"rossoctl.io/managed": "yes"}
	w.must(w.Patch(w.Context(), edit, client.MergeFrom(sandbox)))
	await(w, &corev1.PodList{}, "the annotation to reach the pod", func(p *corev1.Pod) bool {
		return p.Name == sandbox.Name && p.Annotations["rossoctl.io/config-hash"] == "abc"
	})
	settled := await(w, &agents.SandboxList{}, "the Sandbox to have said so", func(s *agents.Sandbox) bool {
		ready := findCondition(s.Status.Conditions, agents.ConditionReady)
		return s.Name == sandbox.Name && ready != nil && ready.ObservedGeneration == s.Generation
	})

	// Fifty passes of the claim, each of them forced by an edit of the claim itself.
	key := w.key("task")
	for n := range 50 {
		before := w.passes.of(key)
		claim := &extensions.SandboxClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "task"}}
		w.must(w.Patch(w.Context(), claim, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"poke":"%d"}}}`, n))))
		w.eventually("a pass of the claim", func() bool { return w.passes.of(key) > before })
	}
	w.must(w.Get(w.Context(), client.ObjectKeyFromObject(sandbox), sandbox))
	if sandbox.ResourceVersion != settled.ResourceVersion {
		t.Errorf("the Sandbox was written: resourceVersion %s, then %s", settled.ResourceVersion, sandbox.ResourceVersion)
	}
	if sandbox.Spec.PodTemplate.Metadata.Annotations["rossoctl.io/config-hash"] != "abc" || sandbox.Spec.PodTemplate.Metadata.Labels["rossoctl.io/managed"] != "yes" {
		t.Errorf("somebody else's keys are gone: %+v", sandbox.Spec.PodTemplate.Metadata)
	}
}

// Writes and the objects lists return must not grow with what else is in the namespace.
func TestWorkDoesNotGrowWithTheNamespace(t *testing.T) {
	w := newWorld(t)
	w.template("python")
	pool := w.pool("crowd", "python", 0)
	w.pool("python", "python", 3)
	cost := func(size int32) map[string]int {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, size)
		w.must(w.Patch(w.Context(), pool, client.RawPatch(types.MergePatchType, patch)))
		w.full("crowd", size)
		var all []localcluster.Request
		during := func() {
			name := fmt.Sprintf("task-%d", size)
			w.claim(name, "python")
			bound := w.ready(name)
			w.full("python", 3)
			await(w, &corev1.PodList{}, "the pod to carry the claim's UID", func(p *corev1.Pod) bool {
				return p.Name == bound.Status.Sandbox.Name && p.Labels[agents.LabelClaimUID] == string(bound.UID)
			})
		}
		for _, controller := range []string{"claim", "sandbox", "warmpool", "template"} {
			inner := during
			during = func() { all = append(all, w.manager.Requests(t, controller, inner)...) }
		}
		during()
		counts := map[string]int{}
		for _, r := range all {
			// The crowd may still be settling.
			if r.Resource != "events" && !strings.HasPrefix(r.Name, "crowd") {
				counts[r.Verb+" "+r.Resource+"/"+r.Subresource]++
			}
		}
		return counts
	}
	small, large := cost(200), cost(2000)
	t.Logf("a claim costs %v among 200 Sandboxes and %v among 2,000", small, large)
	if small["list sandboxes/"] != 0 || large["list sandboxes/"] != 0 {
		t.Errorf("a claim made lists: %v, %v", small, large)
	}
	// A conflict with another writer costs a second try, whatever the size, and a pod's way to
	// Ready is seen in more steps or fewer.
	for request, n := range large {
		if n > small[request]+4 {
			t.Errorf("a claim costs %v among 200 Sandboxes and %v among 2,000", small, large)
		}
	}
}
