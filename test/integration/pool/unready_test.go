// SPDX-License-Identifier: Apache-2.0

package pool_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/warmpool"
)

// soon asks for members that are late after seconds.
var soon = warmpool.Options{ReadinessGracePeriod: 2 * time.Second, UnschedulableRecheckInterval: time.Second}

func TestMembersThatWaitForOthersAreHeld(t *testing.T) {
	onNode := func(zone string) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"zone": zone} }
	}
	cases := map[string]struct {
		annotations map[string]string
		edit        func(*corev1.PodSpec)
		says        string
		help        func(*world)
	}{
		"no node takes them": {
			nil, onNode("held"), "its pod has no node (Unschedulable): 0/3 nodes are available",
			func(w *world) {
				w.patch(&corev1.Node{ObjectMeta: w.meta("fake-0")}, "", map[string]any{"metadata": map[string]any{"labels": map[string]any{"zone": "held"}}})
			},
		},
		"a scheduling gate": {
			nil, func(p *corev1.PodSpec) {
				p.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/admission"}}
			}, "its pod has no node (SchedulingGated)",
			func(w *world) {
				for _, pod := range w.pods() {
					w.patch(&pod, "", map[string]any{"spec": map[string]any{"schedulingGates": nil}})
				}
			},
		},
		"a kubelet that has not begun": {
			map[string]string{localcluster.FakeOutcome: localcluster.OutcomePending}, func(*corev1.PodSpec) {}, "has not started its pod yet",
			func(w *world) {
				for _, pod := range w.pods() {
					w.patch(&pod, "", map[string]any{"metadata": map[string]any{"annotations": map[string]any{localcluster.FakeOutcome: nil}}})
				}
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, soon)
			w.template("python", c.annotations, c.edit)
			pool := w.newPool("fast", 3)
			w.awaitPool(pool, "members to be held", func(p *extensions.SandboxWarmPool) bool {
				said := progressing(p)
				return said.Reason == extensions.ReasonMembersHeld && strings.HasPrefix(said.Message, "3 members are not Ready in time") && strings.Contains(said.Message, c.says)
			})
			before := w.members(pool)
			w.awaitEvent("Warning " + extensions.EventWarmPoolNotProgressing)
			c.help(w)
			w.full(pool)
			w.awaitEvent("Normal " + extensions.EventWarmPoolProgressing)
			for name := range w.members(pool) {
				if _, same := before[name]; !same {
					t.Errorf("member %s was made in place of one that only waited", name)
				}
			}
		})
	}
}

func (w *world) pods() []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	w.must(w.List(w.Context(), &list, client.InNamespace(w.namespace)))
	return list.Items
}

func TestAMemberThatNothingExplainsIsReplaced(t *testing.T) {
	w := newWorld(t, soon)
	w.template("python", nil)
	pool := w.full(w.newPool("fast", 3))
	// Its container runs, and its readiness probe fails.
	stuck := w.pods()[0]
	conditions := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}
	w.patch(&stuck, "status", map[string]any{"status": map[string]any{"conditions": conditions}})
	await(w, &agents.SandboxList{}, &agents.Sandbox{ObjectMeta: w.meta(stuck.Name)}, "the stuck member to go", func(_ *agents.Sandbox, there bool) bool { return !there })
	w.full(pool)
}

// creations counts the Sandboxes that are created in the namespace.
type creations struct {
	mu   sync.Mutex
	uids map[types.UID]bool
}

func (w *world) countCreations() *creations {
	w.Helper()
	c := &creations{uids: map[types.UID]bool{}}
	ctx, cancel := context.WithCancel(w.Context())
	watcher, err := w.Watch(ctx, &agents.SandboxList{}, client.InNamespace(w.namespace))
	w.must(err)
	var counting sync.WaitGroup
	counting.Go(func() {
		for event := range watcher.ResultChan() {
			if s, ok := event.Object.(*agents.Sandbox); ok && event.Type == watch.Added {
				c.mu.Lock()
				c.uids[s.UID] = true
				c.mu.Unlock()
			}
		}
	})
	w.Cleanup(func() { cancel(); counting.Wait() })
	return c
}

func (c *creations) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.uids)
}

func TestMembersThatFailAreReplacedMoreAndMoreSlowly(t *testing.T) {
	const replicas, failures = 3, 4
	w := newWorld(t, warmpool.Options{})
	template := w.template("python", map[string]string{localcluster.FakeOutcome: localcluster.OutcomeFailed})
	made := w.countCreations()
	begin := time.Now()
	pool := w.newPool("fast", replicas)
	w.awaitPool(pool, "failures", func(p *extensions.SandboxWarmPool) bool {
		return progressing(p).Reason == extensions.ReasonMembersFailing &&
			strings.Contains(progressing(p).Message, fmt.Sprintf("replaced %d times in a row", failures))
	})
	took, n := time.Since(begin), made.count()
	// The first at once, then after pauses of 1, 2 and 4 seconds.
	if took < 7*time.Second {
		t.Errorf("members were replaced %d times in %s", failures, took)
	}
	if most := replicas * (failures + 1); n > most {
		t.Errorf("%d members were made in %d rounds, want %d at most", n, failures+1, most)
	}
	w.awaitEvent("Warning " + extensions.ReasonMembersFailing)
	// Another template is tried as soon as the pause is over.
	w.patch(template, "", map[string]any{"spec": map[string]any{"podTemplate": map[string]any{"metadata": map[string]any{"annotations": nil}}}})
	w.full(pool)
	t.Logf("%d members were made in %s, and %d until the pool was full", n, took, made.count())
}
