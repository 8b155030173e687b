// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// history watches everything that happens in a namespace, and checks at every event
// what may never happen, however short it lasts.
type history struct {
	t testing.TB

	mu        sync.Mutex
	claims    map[types.UID]*extensions.SandboxClaim
	sandboxes map[types.UID]*agents.Sandbox
	pods      map[types.UID]*corev1.Pod
	pools     map[types.UID]*extensions.SandboxWarmPool
	boundTo   map[types.UID]extensions.ClaimedSandbox // by claim, for ever
	bound     map[types.UID]types.UID                 // by Sandbox, the claim, for ever
	steps     int
	wrong     []string
	changed   chan struct{} // closed at the next event
}

// watch begins a history, before the controllers begin.
func (s *stage) watch() *history {
	s.Helper()
	h := &history{
		t: s.T, changed: make(chan struct{}),
		claims: map[types.UID]*extensions.SandboxClaim{}, sandboxes: map[types.UID]*agents.Sandbox{},
		pods: map[types.UID]*corev1.Pod{}, pools: map[types.UID]*extensions.SandboxWarmPool{},
		boundTo: map[types.UID]extensions.ClaimedSandbox{}, bound: map[types.UID]types.UID{},
	}
	for _, list := range []client.ObjectList{
		&extensions.SandboxClaimList{}, &agents.SandboxList{}, &corev1.PodList{}, &extensions.SandboxWarmPoolList{},
	} {
		s.must(s.List(s.Context(), list, client.InNamespace(s.namespace)))
		s.must(apimeta.EachListItem(list, func(obj runtime.Object) error {
			h.record(watch.Event{Type: watch.Added, Object: obj})
			return nil
		}))
		// The server ends watches whose events are not taken fast enough, which on a busy
		// machine happens. This one goes on where the last ended, so that none is missed.
		watcher, err := watchtools.NewRetryWatcherWithContext(s.Context(), list.GetResourceVersion(), &watched{stage: s, list: list})
		s.must(err)
		go func() {
			for event := range watcher.ResultChan() {
				h.record(event)
			}
		}()
	}
	return h
}

// watched watches a kind in the stage's namespace.
type watched struct {
	stage *stage
	list  client.ObjectList
}

// WatchWithContext implements cache.WatcherWithContext.
func (w *watched) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	list := w.list.DeepCopyObject().(client.ObjectList)
	return w.stage.Watch(ctx, list, &client.ListOptions{Namespace: w.stage.namespace, Raw: &options})
}

// record takes one event in. One kind's events come in the order in which they
// happened, those of two kinds do not.
func (h *history) record(event watch.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch obj := event.Object.(type) {
	case *extensions.SandboxClaim:
		keep(h.claims, event.Type, obj)
		h.binding(obj)
	case *agents.Sandbox:
		was := h.sandboxes[obj.UID]
		keep(h.sandboxes, event.Type, obj)
		h.ownership(was, obj)
		h.members(obj)
	case *corev1.Pod:
		if event.Type == watch.Added {
			h.steps++
		}
		keep(h.pods, event.Type, obj)
		h.onePod(obj)
	case *extensions.SandboxWarmPool:
		keep(h.pools, event.Type, obj)
	default:
		h.fail("the history has a gap: %s %v", event.Type, obj)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

func keep[T client.Object](all map[types.UID]T, event watch.EventType, obj T) {
	if event == watch.Deleted {
		delete(all, obj.GetUID())
		return
	}
	all[obj.GetUID()] = obj
}

// binding: a claim is bound once, and a Sandbox to one claim.
func (h *history) binding(claim *extensions.SandboxClaim) {
	is := claim.Status.Sandbox
	was, known := h.boundTo[claim.UID]
	switch {
	case known && (is.Name != was.Name || is.UID != was.UID):
		h.fail("claim %s was bound to %s (%s) and is bound to %q (%s)", claim.Name, was.Name, was.UID, is.Name, is.UID)
	case known || is.Name == "":
		return
	}
	if other, taken := h.bound[is.UID]; taken && other != claim.UID {
		h.fail("Sandbox %s was bound to claim %s and is bound to %s, named %s", is.Name, other, claim.UID, claim.Name)
	}
	h.boundTo[claim.UID], h.bound[is.UID] = is, claim.UID
	h.steps++
}

// ownership: a Sandbox goes from nobody or a pool to a claim, and then to nobody else.
func (h *history) ownership(was, is *agents.Sandbox) {
	if was == nil {
		h.steps++
		return
	}
	before, after := control.ControllerUID(was), control.ControllerUID(is)
	if before == after {
		return
	}
	h.steps++
	if control.ControllerOf(was, extensions.GroupName, extensions.SandboxClaimKind) != nil {
		h.fail("Sandbox %s was claim %s's and is %s's", is.Name, before, after)
	}
}

// members: a pool never has more than its replicas, those that are going included.
func (h *history) members(of *agents.Sandbox) {
	pool, ok := h.pools[control.ControllerUID(of)]
	if !ok {
		return
	}
	members := 0
	for _, s := range h.sandboxes {
		if control.IsControlledBy(s, pool.UID) {
			members++
		}
	}
	if members > int(pool.DesiredReplicas()) {
		h.fail("pool %s has %d members", pool.Name, members)
	}
}

// onePod: a Sandbox never has two live pods.
func (h *history) onePod(pod *corev1.Pod) {
	owner := control.ControllerUID(pod)
	var live []string
	for _, other := range h.pods {
		if other.DeletionTimestamp == nil && control.ControllerUID(other) == owner {
			live = append(live, other.Name)
		}
	}
	if len(live) > 1 {
		h.fail("Sandbox %s has the live pods %v", owner, live)
	}
}

func (h *history) fail(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// reach waits until so many steps were taken: a Sandbox or a pod created, a Sandbox
// adopted, a claim bound.
func (h *history) reach(steps int) {
	h.t.Helper()
	h.until(func() string {
		if h.steps < steps {
			return fmt.Sprintf("%d of %d steps were taken", h.steps, steps)
		}
		return ""
	})
}

// until waits until nothing is left of what a check finds missing.
func (h *history) until(missing func() string) {
	h.t.Helper()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		h.mu.Lock()
		left, changed, wrong := missing(), h.changed, len(h.wrong) > 0
		h.mu.Unlock()
		if wrong {
			h.report()
			h.t.FailNow()
		}
		if left == "" {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			h.t.Fatalf("waited too long: %s", left)
		}
	}
}

// report fails the test with what should never have happened.
func (h *history) report() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, wrong := range h.wrong {
		h.t.Error(wrong)
	}
}

// unsettled says what is missing for everything to be in order: every claim Ready with
// its one Sandbox, the pool full, every Sandbox a claim's or the pool's, and every pod
// a Sandbox's.
func (h *history) unsettled(claims int, pool types.UID, replicas int) string {
	own := map[types.UID][]types.UID{} // by controller, Sandboxes
	for _, s := range h.sandboxes {
		owner := control.ControllerUID(s)
		if _, claim := h.claims[owner]; !claim && owner != pool {
			return fmt.Sprintf("Sandbox %s belongs to %q, which is neither the pool nor a claim", s.Name, owner)
		}
		own[owner] = append(own[owner], s.UID)
	}
	if len(h.claims) != claims {
		return fmt.Sprintf("there are %d claims", len(h.claims))
	}
	for _, claim := range h.claims {
		switch {
		case !apimeta.IsStatusConditionTrue(claim.Status.Conditions, agents.ConditionReady):
			return fmt.Sprintf("claim %s is not Ready: %+v", claim.Name, claim.Status.Conditions)
		case !slices.Equal(own[claim.UID], []types.UID{claim.Status.Sandbox.UID}):
			return fmt.Sprintf("claim %s is bound to %s and has %v", claim.Name, claim.Status.Sandbox.UID, own[claim.UID])
		}
	}
	ready := h.pools[pool]
	if ready == nil {
		return "the pool was not seen yet"
	}
	if len(own[pool]) != replicas || int(ready.Status.ReadyReplicas) != replicas || int(ready.Status.Replicas) != replicas {
		return fmt.Sprintf("the pool has %d members and says %+v", len(own[pool]), ready.Status)
	}
	pods := map[types.UID]int{}
	for _, pod := range h.pods {
		if _, living := h.sandboxes[control.ControllerUID(pod)]; !living || pod.DeletionTimestamp != nil {
			return fmt.Sprintf("pod %s belongs to %q, which is gone, or is itself going", pod.Name, control.ControllerUID(pod))
		}
		pods[control.ControllerUID(pod)]++
	}
	for _, uid := range slices.Sorted(maps.Keys(h.sandboxes)) {
		if pods[uid] != 1 {
			return fmt.Sprintf("Sandbox %s has %d pods", h.sandboxes[uid].Name, pods[uid])
		}
	}
	return ""
}
