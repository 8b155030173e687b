// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
)

// Two hundred claims stand before a pool of twenty when the controllers start: the
// members go to the twenty oldest claims, members that come up serve some of the others,
// and the rest start cold at once. Nobody asks for anything twice.
func TestABurstOfClaimsIsServedInOrderAndWithoutPolling(t *testing.T) {
	const burst, stock = 200, 20
	w := newWorld(t)
	w.template("python")
	w.pool("python", "python", stock)
	warm := map[string]bool{}
	for _, s := range w.sandboxes() {
		warm[s.Name] = true
	}
	w.manager.Stop(t)
	// A server keeps times of creation in seconds.
	oldest, rest := names("old", stock), names("task", burst-stock)
	w.claims("python", oldest...)
	created := time.Now().Unix()
	w.eventually("the next second", func() bool { return time.Now().Unix() > created })
	w.claims("python", rest...)
	all := slices.Concat(oldest, rest)

	seen := w.recordClaims()
	requests := w.requests(func() {
		w.manager.Restart(t)
		for _, name := range all {
			w.ready(name)
		}
		w.full("python", stock)
	})

	for _, name := range all {
		bound := w.ready(name).Status.Sandbox.Name
		if isOld := slices.Contains(oldest, name); warm[bound] != isOld {
			t.Errorf("claim %s got %s: is that one of the first members? %v", name, bound, warm[bound])
		}
	}
	waited, cold := map[string]bool{}, map[string]bool{}
	w.eventually("the record to be whole", func() bool {
		has := map[string]bool{}
		for _, c := range seen() {
			has[c.Name] = has[c.Name] || isReadyNow(c)
		}
		return !slices.ContainsFunc(all, func(name string) bool { return !has[name] })
	})
	for _, c := range seen() {
		bound := findCondition(c.Status.Conditions, extensions.ConditionBound)
		switch {
		case bound == nil:
		case bound.Reason == extensions.ReasonWaitingForMember:
			waited[c.Name] = true
		case bound.Reason == extensions.ReasonStarted || bound.Reason == extensions.ReasonCreated:
			if waited[c.Name] {
				t.Errorf("claim %s waited for a member and started cold", c.Name)
			}
			cold[c.Name] = true
		}
	}
	t.Logf("%d claims waited for a member, %d started cold", len(waited), len(cold))
	if len(cold) < burst/2 {
		t.Errorf("only %d claims started cold", len(cold))
	}

	// Warm: an adoption and a status. Cold: a Sandbox, that it is the claim's, and how its
	// pod comes up. A conflict with another writer costs one more.
	const most = 8
	asked := map[string]int{}
	for _, r := range requests {
		if r.Namespace == w.namespace && strings.HasSuffix(r.UserAgent, "/claim") && r.Resource != "events" {
			asked[r.Resource+" "+r.Verb]++
		}
	}
	for _, name := range all {
		n := 0
		own := w.ready(name).Status.Sandbox.Name
		for _, r := range requests {
			if strings.HasSuffix(r.UserAgent, "/claim") && r.Resource != "events" && r.Namespace == w.namespace && (r.Name == name || r.Name == own) {
				n++
			}
		}
		if n > most || w.passes.of(w.key(name)) > 2*most {
			t.Errorf("claim %s took %d requests in %d passes", name, n, w.passes.of(w.key(name)))
		}
	}
	t.Logf("the claims' controller made %v", asked)
	if reads := asked["sandboxes get"] + asked["sandboxclaims get"] + asked["sandboxwarmpools get"] + asked["sandboxtemplates get"]; reads > burst {
		t.Errorf("%d reads for %d claims", reads, burst)
	}
	if asked["sandboxes list"]+asked["sandboxclaims list"] > 0 {
		t.Errorf("lists were asked for: %v", asked)
	}
	w.ownedOnce(burst + stock)
}

// recordClaims records all states of the namespace's claims from now on. What it returns
// gives those that came until then.
func (w *world) recordClaims() func() []*extensions.SandboxClaim {
	w.Helper()
	var list extensions.SandboxClaimList
	w.must(w.List(w.Context(), &list, inNamespace(w)))
	var mu sync.Mutex
	var all []*extensions.SandboxClaim
	go func() { // at once: a server drops a watch that nobody reads
		for from := list.ResourceVersion; w.Context().Err() == nil; {
			watcher, err := w.Watch(w.Context(), &extensions.SandboxClaimList{}, inNamespace(w), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: from}})
			if err != nil {
				continue
			}
			for event := range watcher.ResultChan() {
				c, ok := event.Object.(*extensions.SandboxClaim)
				if !ok {
					from = "" // too old; begin with what is there
					break
				}
				from = c.ResourceVersion
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
			}
			watcher.Stop()
		}
	}()
	return func() []*extensions.SandboxClaim {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func isReadyNow(c *extensions.SandboxClaim) bool {
	ready := findCondition(c.Status.Conditions, agents.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue
}

func TestAClaimNamesTheMembersItCannotHave(t *testing.T) {
	w := newWorld(t)
	python := w.template("python")
	pool := w.pool("python", "python", 2, strategy(extensions.WarmPoolRecreate))
	members := w.sandboxesOf(pool.UID)
	slices.Sort(members)

	// Nobody replaces the members when their template changes, and the claim cannot have a
	// Sandbox of its own either.
	w.manager.Stop(t)
	w.manager = managertest.Start(t, cluster, managertest.Options{Controllers: slices.DeleteFunc(w.controllers(), func(c manager.Controller) bool {
		return c.Events == "sandboxwarmpool-controller"
	})})
	w.merge(python, podAnnotations(map[string]any{edition: "1"}))
	other := &agents.Sandbox{ObjectMeta: w.named("task")}
	other.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox:1.36"}}
	w.must(w.Create(w.Context(), other))
	w.claim("task", "python")
	told := w.condition("task", extensions.ConditionBound, metav1.ConditionFalse, extensions.ReasonSandboxNameTaken)
	why := `sandbox "task" is not controlled by claim "task". Please use a different claim name or delete the sandbox manually`
	w.says(told.Status.Conditions, "Ready", metav1.ConditionFalse, "SandboxNameTaken", why)
	w.says(told.Status.Conditions, "Bound", metav1.ConditionFalse, "SandboxNameTaken",
		why+"; passed over: "+members[0]+" is of an older blueprint, "+members[1]+" is of an older blueprint")
	w.must(w.Delete(w.Context(), other))
	if bound := w.ready("task"); bound.Status.Sandbox.Name != "task" || w.editionOf(bound) != 1 {
		t.Errorf("the claim got %s of edition %d", bound.Status.Sandbox.Name, w.editionOf(bound))
	}
}
