// SPDX-License-Identifier: Apache-2.0

package pool_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/warmpool"
)

// witness sees every change of the Sandboxes of a namespace, in the server's order, and
// counts the members of one pool after each.
type witness struct {
	pool    types.UID
	members map[types.UID]bool // and whether they can be handed out

	adopted map[types.UID]bool
	// unseen counts members adopted since the pool last made one. When it deletes
	// others it may not have seen these leave.
	unseen int

	begun                    bool
	terminating              map[types.UID]bool
	events, deleted, made    int // changes, deletions of ready members, creations
	mostMembers, fewestReady int
	worst                    int // the fewest ready members that a deletion left, those unseen added
}

func newWitness(pool types.UID, ready int) *witness {
	return &witness{pool: pool, members: map[types.UID]bool{}, adopted: map[types.UID]bool{}, terminating: map[types.UID]bool{}, fewestReady: ready, worst: ready}
}

func (o *witness) see(event watch.Event) {
	s, ok := event.Object.(*agents.Sandbox)
	if !ok {
		return
	}
	o.events++
	_, was := o.members[s.UID]
	switch {
	case event.Type == watch.Deleted:
		delete(o.members, s.UID)
	case !control.IsControlledBy(s, o.pool):
		if was {
			o.adopted[s.UID] = true
			o.unseen++
		}
		delete(o.members, s.UID)
	default:
		if !was && o.begun {
			o.made++
			o.unseen = 0
		}
		wasReady := o.members[s.UID]
		ready := s.DeletionTimestamp == nil && meta.IsStatusConditionTrue(s.Status.Conditions, agents.ConditionReady)
		o.members[s.UID] = ready
		if s.DeletionTimestamp != nil && !o.terminating[s.UID] {
			o.terminating[s.UID] = true
			if wasReady {
				o.deleted++
				o.worst = min(o.worst, o.ready()+o.unseen)
			}
		}
	}
	if o.begun {
		o.mostMembers = max(o.mostMembers, len(o.members))
		o.fewestReady = min(o.fewestReady, o.ready())
	}
}

func (o *witness) ready() int {
	n := 0
	for _, ready := range o.members {
		if ready {
			n++
		}
	}
	return n
}

// watch has the witness see everything from now on. The returned function ends that, when
// everything up to then was seen.
func (w *world) watch(o *witness) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	watcher, err := w.Watch(ctx, &agents.SandboxList{}, client.InNamespace(w.namespace))
	w.must(err)
	marker := &agents.Sandbox{ObjectMeta: w.meta("begin")}
	marker.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "none"}}
	end := marker.DeepCopy()
	end.Name = "end"
	w.must(w.Create(w.Context(), marker))
	var seeing sync.WaitGroup
	begun := make(chan struct{})
	seeing.Go(func() {
		for event := range watcher.ResultChan() {
			s, ok := event.Object.(*agents.Sandbox)
			if !ok {
				w.Errorf("the watch brought %v", event)
				return
			}
			if s.Name == "begin" && !o.begun {
				o.begun = true
				close(begun)
			}
			if s.Name == "end" {
				return
			}
			o.see(event)
		}
		w.Error("the watch ended early")
	})
	<-begun
	return func() {
		w.Helper()
		w.must(w.Create(w.Context(), end))
		seeing.Wait()
		cancel()
	}
}

func rolling(unavailable, surge int) func(*extensions.SandboxWarmPool) {
	return func(p *extensions.SandboxWarmPool) {
		p.Spec.UpdateStrategy = &extensions.SandboxWarmPoolUpdateStrategy{
			Type: extensions.WarmPoolRollingUpdate,
			RollingUpdate: &extensions.SandboxWarmPoolRollingUpdate{
				MaxUnavailable: ptr.To(intstr.FromInt(unavailable)), MaxSurge: ptr.To(intstr.FromInt(surge)),
			},
		}
	}
}

// edit changes the image of the template.
func (w *world) edit(t *extensions.SandboxTemplate, image string) {
	w.Helper()
	w.patch(t, "", map[string]any{"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{
		"containers": []map[string]any{{"name": "main", "image": image}},
	}}}})
}

func TestARollingUpdateKeepsMaxUnavailableAtEveryMoment(t *testing.T) {
	const replicas = 50
	for name, c := range map[string]struct{ unavailable, surge int }{
		"five at a time":              {5, 0},
		"none, with three in advance": {0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, warmpool.Options{})
			template := w.template("python", map[string]string{localcluster.FakeStartDelay: "300ms"})
			pool := w.full(w.newPool("fast", replicas, rolling(c.unavailable, c.surge)))
			before := w.members(pool)
			o := newWitness(pool.UID, replicas)
			stop := w.watch(o)
			w.edit(template, "new")
			w.awaitPool(pool, "the update to begin", func(p *extensions.SandboxWarmPool) bool { return p.Status.UpdatedReplicas < replicas })
			w.full(pool)
			stop()
			if o.deleted != replicas || o.made != replicas {
				t.Errorf("%d ready members were deleted and %d made, want %d each", o.deleted, o.made, replicas)
			}
			if least := replicas - c.unavailable; o.fewestReady < least {
				t.Errorf("%d members were ready at some moment, want %d at least", o.fewestReady, least)
			}
			if most := replicas + c.surge; o.mostMembers > most {
				t.Errorf("there were %d members at some moment, want %d at most", o.mostMembers, most)
			}
			for name, s := range w.members(pool) {
				if _, old := before[name]; old || s.Spec.PodTemplate.Spec.Containers[0].Image != "new" {
					t.Errorf("member %s is of the old template", name)
				}
			}
			t.Logf("%d changes, between %d ready members and %d members", o.events, o.fewestReady, o.mostMembers)
		})
	}
}

func TestARollingUpdateGoesOnWhileClaimsTakeMembers(t *testing.T) {
	const replicas, unavailable, claims = 50, 5, 60
	w := newWorld(t, warmpool.Options{})
	template := w.template("python", map[string]string{localcluster.FakeStartDelay: "300ms"})
	pool := w.full(w.newPool("fast", replicas, rolling(unavailable, 0)))
	o := newWitness(pool.UID, replicas)
	stop := w.watch(o)
	w.edit(template, "new")
	w.awaitPool(pool, "the update to begin", func(p *extensions.SandboxWarmPool) bool { return p.Status.UpdatedReplicas < replicas })
	bound := map[types.UID]string{}
	for i := range claims {
		name := fmt.Sprintf("task-%02d", i)
		w.claim(name, "fast")
		if i%10 != 9 {
			continue
		}
		for j := i - 9; j <= i; j++ { // ten at a time
			c := w.ready(fmt.Sprintf("task-%02d", j))
			if other, twice := bound[c.Status.Sandbox.UID]; twice {
				t.Errorf("Sandbox %s is bound to %s and %s", c.Status.Sandbox.Name, other, c.Name)
			}
			bound[c.Status.Sandbox.UID] = c.Name
		}
	}
	w.full(pool)
	stop()
	// What the pool takes away itself leaves enough for claims. What claims take at the
	// same moment it cannot know of.
	if least := replicas - unavailable; o.worst < least {
		t.Errorf("the pool left %d ready members, want %d at least", o.worst, least)
	}
	if o.mostMembers > replicas {
		t.Errorf("there were %d members at some moment, want %d at most", o.mostMembers, replicas)
	}
	if len(o.adopted) == 0 || len(bound) != claims {
		t.Errorf("%d members were adopted, and %d claims bound", len(o.adopted), len(bound))
	}
	t.Logf("%d changes: %d members adopted, %d deleted while ready, at least %d ready", o.events, len(o.adopted), o.deleted, o.fewestReady)
}
