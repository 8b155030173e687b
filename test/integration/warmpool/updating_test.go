// SPDX-License-Identifier: Apache-2.0

package warmpool_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/blueprint"
	"github.com/berthdev/berth/internal/warmpool"
)

func keyOf(obj client.Object) client.ObjectKey { return client.ObjectKeyFromObject(obj) }

// edit changes the template's pod annotation or image.
func (s *stage) edit(body map[string]any) {
	s.t.Helper()
	s.patch(s.template("python", ""), "", map[string]any{"spec": map[string]any{"podTemplate": body}})
}

func newImage() map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []map[string]any{{"name": "main", "image": "new"}}}}
}

func image(s agents.Sandbox) string { return s.Spec.PodTemplate.Spec.Containers[0].Image }

func TestOnReplenishKeepsOlderMembersAndMakesNewOnes(t *testing.T) {
	s := newStage(t, warmpool.Options{})
	pool := s.filled(3, extensions.WarmPoolOnReplenish)
	before := s.members(pool)
	s.edit(newImage())
	s.await(pool, "has no member of the new blueprint", func(p *extensions.SandboxWarmPool) bool { return p.Status.UpdatedReplicas == 0 })
	if err := s.client.Delete(s.ctx, &before[0]); err != nil {
		t.Fatal(err)
	}
	after := s.awaitMembers(pool, "three again", func(members []agents.Sandbox) bool {
		return len(members) == 3 && !slices.ContainsFunc(members, func(m agents.Sandbox) bool { return m.Name == before[0].Name })
	})
	images := map[string]int{}
	for _, m := range after {
		images[image(m)]++
	}
	if images["old"] != 2 || images["new"] != 1 {
		t.Errorf("images %v, want two old and one new", images)
	}
	s.await(pool, "counts one of the new blueprint", func(p *extensions.SandboxWarmPool) bool { return p.Status.UpdatedReplicas == 1 })
}

func TestReplacingStrategiesReplaceOlderMembers(t *testing.T) {
	cases := map[string]struct {
		strategy extensions.SandboxWarmPoolUpdateStrategyType
		edit     map[string]any
	}{
		"Recreate replaces members of an older image": {extensions.WarmPoolRecreate, newImage()},
		"Recreate replaces members whose pods have older annotations": {
			extensions.WarmPoolRecreate, map[string]any{"metadata": map[string]any{"annotations": map[string]any{"rolled": "yes"}}},
		},
		"RollingUpdate replaces members of an older image": {extensions.WarmPoolRollingUpdate, newImage()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, warmpool.Options{})
			pool := s.filled(3, c.strategy)
			s.edit(c.edit)
			current := s.template("python", "")
			if err := s.client.Get(s.ctx, keyOf(current), current); err != nil {
				t.Fatal(err)
			}
			s.awaitMembers(pool, "of the new blueprint", func(members []agents.Sandbox) bool {
				return len(members) == 3 && !slices.ContainsFunc(members, func(m agents.Sandbox) bool { return !blueprint.Matches(&m, current) })
			})
			s.await(pool, "is full again", func(p *extensions.SandboxWarmPool) bool { return full(3)(p) && p.Status.UpdatedReplicas == 3 })
			if most := s.player.mostOf(pool.UID); most != 3 {
				t.Errorf("there were %d members at a time, want 3", most)
			}
		})
	}
}

func TestNobodyCanPlantAMember(t *testing.T) {
	s := newStage(t, warmpool.Options{})
	pool := s.filled(2, extensions.WarmPoolRecreate)
	template := s.template("python", "")
	if err := s.client.Get(s.ctx, keyOf(template), template); err != nil {
		t.Fatal(err)
	}
	planted := []*agents.Sandbox{
		blueprint.Member(pool, template, "orphan"),
		blueprint.Member(pool, template, "of-a-former-pool"),
	}
	planted[0].OwnerReferences = nil
	planted[1].OwnerReferences[0].UID = "former-uid"
	for _, one := range planted {
		s.create(one)
	}
	// Edits the pool reacts to, so that it looks at everything once more.
	s.patch(pool, "", map[string]any{"spec": map[string]any{"replicas": 1}})
	s.await(pool, "shrank", full(1))
	s.edit(newImage())
	s.await(pool, "is of the new blueprint", func(p *extensions.SandboxWarmPool) bool { return full(1)(p) && p.Status.UpdatedReplicas == 1 })
	for _, one := range planted {
		is := one.DeepCopy()
		if !s.exists(is) || is.DeletionTimestamp != nil {
			t.Errorf("Sandbox %s, which is no member, was deleted", one.Name)
		}
		if !equality.Semantic.DeepEqual(is.OwnerReferences, one.OwnerReferences) {
			t.Errorf("Sandbox %s, which is no member, was adopted: %v", one.Name, is.OwnerReferences)
		}
	}
}

func TestAPoolAfterACrashHasWhatItHad(t *testing.T) {
	s := newStage(t, warmpool.Options{MaxBatchSize: 4})
	s.create(s.template("python", "old"))
	pool := s.pool(30, extensions.WarmPoolOnReplenish)
	s.create(pool)
	s.awaitMembers(pool, "some", func(members []agents.Sandbox) bool { return len(members) > 5 })
	s.manager.Kill(t)
	s.manager.Restart(t)
	s.await(pool, "is full", full(30))
	if most := s.player.mostOf(pool.UID); most != 30 {
		t.Errorf("there were %d members at a time, want 30", most)
	}
	var list agents.SandboxList
	if err := s.client.List(s.ctx, &list, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Items {
		if metav1.GetControllerOf(&one) == nil {
			t.Errorf("Sandbox %s belongs to nobody", one.Name)
		}
	}
}

// A pass that runs out of steps at work is no failure: nothing is said of it, and no
// pause is made.
func TestWorkThatTakesMoreStepsThanAPassHasIsNoError(t *testing.T) {
	s := newStage(t, warmpool.Options{MaxBatchSize: 1})
	pool := s.filled(6, extensions.WarmPoolOnReplenish)
	s.edit(newImage())
	s.await(pool, "has no member of the new blueprint", func(p *extensions.SandboxWarmPool) bool { return p.Status.UpdatedReplicas == 0 })
	gone := make(chan struct{})
	s.player.set(func(p *player) { p.lingered = gone })
	failures := failedPasses(t)
	// One question to the server, six deletions, one status: that is all a pass has.
	s.patch(pool, "", map[string]any{"spec": map[string]any{"updateStrategy": map[string]any{"type": "Recreate"}}})
	s.await(pool, "let all members go", func(p *extensions.SandboxWarmPool) bool { return p.Status.Replicas == 0 })
	close(gone)
	s.await(pool, "is full again", func(p *extensions.SandboxWarmPool) bool { return full(6)(p) && p.Status.UpdatedReplicas == 6 })
	if n := failedPasses(t) - failures; n > 0 {
		t.Errorf("%v passes failed", n)
	}
}

// failedPasses is how many passes of pools have ended in an error in this process.
func failedPasses(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_errors_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == "warmpool" {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// unreadable is a transport over which no template can be read one by one; watches go on.
type unreadable struct {
	next http.RoundTripper
	on   *atomic.Bool
}

func (u unreadable) RoundTrip(request *http.Request) (*http.Response, error) {
	if u.on.Load() && request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/sandboxtemplates/python") {
		return nil, errors.New("no route to host")
	}
	return u.next.RoundTrip(request)
}

func TestTheStatusIsWrittenAlsoWhenAPassFails(t *testing.T) {
	var off atomic.Bool
	s := newStage(t, warmpool.Options{}, func(config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return unreadable{next, &off} })
	})
	pool := s.filled(3, extensions.WarmPoolOnReplenish)
	before := s.members(pool)
	s.edit(newImage())
	s.await(pool, "has no member of the new blueprint", func(p *extensions.SandboxWarmPool) bool { return p.Status.UpdatedReplicas == 0 })
	off.Store(true) // now nobody can make sure of the template before members go
	s.patch(pool, "", map[string]any{"spec": map[string]any{"updateStrategy": map[string]any{"type": "Recreate"}}})
	seen := s.await(pool, "says what it is to do", func(p *extensions.SandboxWarmPool) bool {
		return p.Status.ObservedGeneration == p.Generation && progressing(extensions.ReasonUpdating)(p)
	})
	if seen.Status.Replicas != 3 || len(s.members(pool)) != len(before) {
		t.Errorf("members went for a template nobody could read: %+v", seen.Status)
	}
	off.Store(false)
	s.await(pool, "is of the new blueprint", func(p *extensions.SandboxWarmPool) bool { return full(3)(p) && p.Status.UpdatedReplicas == 3 })
}
