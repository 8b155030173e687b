// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
)

// twoTimes is a view whose cache is behind the server.
type twoTimes[T any] struct{ cached, live T }

type pools struct {
	consistent.Kind[*extensions.SandboxWarmPool]
	twoTimes[*extensions.SandboxWarmPool]
}

func (p pools) Get(context.Context, types.NamespacedName) (*extensions.SandboxWarmPool, bool, error) {
	return p.cached, true, nil
}

func (p pools) Live(context.Context, types.NamespacedName) (*extensions.SandboxWarmPool, bool, error) {
	return p.live, p.live != nil, nil
}

func (p pools) By(context.Context, string, string) ([]*extensions.SandboxWarmPool, error) {
	return []*extensions.SandboxWarmPool{p.cached}, nil
}

type templates struct {
	consistent.Kind[*extensions.SandboxTemplate]
	there string
}

func (f templates) Get(_ context.Context, key types.NamespacedName) (*extensions.SandboxTemplate, bool, error) {
	return &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}, key.Name == f.there, nil
}

func (f templates) Live(ctx context.Context, key types.NamespacedName) (*extensions.SandboxTemplate, bool, error) {
	return f.Get(ctx, key)
}

func TestATemplateIsMissingOnlyIfThePoolStillNamesIt(t *testing.T) {
	naming := func(template string) *extensions.SandboxWarmPool {
		return &extensions.SandboxWarmPool{Spec: extensions.SandboxWarmPoolSpec{TemplateRef: extensions.SandboxTemplateRef{Name: template}}}
	}
	for name, test := range map[string]struct {
		live     *extensions.SandboxWarmPool
		pool     bool
		template string
	}{
		"the pool has been switched to a template that is there": {naming("new"), true, "new"},
		"the pool is gone": {nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			views := kinds.Views{
				WarmPools: pools{twoTimes: twoTimes[*extensions.SandboxWarmPool]{naming("old"), test.live}},
				Templates: templates{there: "new"},
			}
			found, err := newSupply(views, newLock).fromPool(t.Context(), types.NamespacedName{Namespace: "default", Name: "python"})
			if err != nil || (found.Pool != nil) != test.pool || found.TemplateName != test.template || (found.Template != nil) != test.pool {
				t.Errorf("found %+v, %v", found, err)
			}
		})
	}
}

func recreating(template string) *extensions.SandboxWarmPool {
	return &extensions.SandboxWarmPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool", UID: "pool-uid"},
		Spec: extensions.SandboxWarmPoolSpec{
			TemplateRef:    extensions.SandboxTemplateRef{Name: template},
			UpdateStrategy: &extensions.SandboxWarmPoolUpdateStrategy{Type: extensions.WarmPoolRecreate},
		},
	}
}

func newLock() sync.Locker { return &sync.Mutex{} }

func TestAClaimOfAnyPoolGetsTheTemplateItNames(t *testing.T) {
	for name, c := range map[string]struct {
		live *extensions.SandboxWarmPool
		pool bool
	}{
		"from a pool of it":                       {recreating("python"), true},
		"without a pool that is another's by now": {recreating("other"), false},
		"without a pool that is gone":             {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(control.Environment{NewLock: newLock}, kinds.Views{
				WarmPools: pools{twoTimes: twoTimes[*extensions.SandboxWarmPool]{recreating("python"), c.live}},
				Templates: templates{there: "python"},
			}, Options{})
			claim := claimWithUID("any")
			claim.Spec = extensions.SandboxClaimSpec{TemplateRef: &extensions.SandboxTemplateRef{Name: "python"}}
			found, err := r.source(t.Context(), claim)
			if err != nil || found.TemplateName != "python" || found.Template == nil || (found.Pool != nil) != c.pool {
				t.Errorf("found %+v, %v", found, err)
			}
			if c.pool && unfit(found, newSandbox("a", ownedBy("SandboxWarmPool", found.Pool.UID), madeFrom("other")), nil) != "is of another template" {
				t.Error("a member of another template, which the pool had before, would do")
			}
		})
	}
}

func madeFrom(template string) func(*agents.Sandbox) {
	return func(s *agents.Sandbox) { s.Annotations = map[string]string{agents.AnnotationTemplateRef: template} }
}

// gated is a view of pools whose live reads wait to be let through, and are counted.
type gated struct {
	consistent.Kind[*extensions.SandboxWarmPool]
	began, end chan struct{}
	reads      *atomic.Int32
}

func (g gated) Live(context.Context, types.NamespacedName) (*extensions.SandboxWarmPool, bool, error) {
	n := g.reads.Add(1)
	g.began <- struct{}{}
	<-g.end
	pool := recreating("python")
	pool.Generation = int64(n)
	return pool, true, nil
}

// R7: what a claim is served by was read after the claim came. Claims that came while a
// read was under way share the next one.
func TestClaimsShareALiveReadThatBeganAfterThem(t *testing.T) {
	view := gated{began: make(chan struct{}), end: make(chan struct{}), reads: &atomic.Int32{}}
	s := newSupply(kinds.Views{WarmPools: view, Templates: templates{there: "python"}}, newLock)
	key := types.NamespacedName{Namespace: "default", Name: "pool"}
	results := make(chan int64, 3)
	ask := func() {
		found, err := s.fresh(t.Context(), key)
		if err != nil || found.Blueprint == nil {
			t.Errorf("found %+v, %v", found, err)
		}
		results <- found.Pool.Generation
	}
	go ask()
	<-view.began // the first claim's read is under way
	go ask()
	go ask()
	for asking := 0; asking < 3; runtime.Gosched() {
		s.mu.Lock()
		asking = s.flights[key].asking
		s.mu.Unlock()
	}
	view.end <- struct{}{}
	if got := <-results; got != 1 {
		t.Errorf("the first claim has read %d", got)
	}
	<-view.began
	view.end <- struct{}{}
	for range 2 {
		if got := <-results; got != 2 {
			t.Errorf("a later claim has read %d, want the one that both share", got)
		}
	}
	if n := view.reads.Load(); n != 2 || len(s.flights) != 0 {
		t.Errorf("%d reads for three claims, want 2; %d flights are remembered", n, len(s.flights))
	}
}
