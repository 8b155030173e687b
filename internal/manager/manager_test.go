// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
)

func TestAGroupRunsEveryCallAndJoinsTheErrors(t *testing.T) {
	var calls atomic.Int32
	err := group{}.Each(t.Context(), 3*parallel, func(_ context.Context, i int) error {
		calls.Add(1)
		if i%parallel == 0 {
			return fmt.Errorf("call %d failed", i)
		}
		return nil
	})
	if calls.Load() != 3*parallel {
		t.Errorf("made %d calls", calls.Load())
	}
	if err == nil || strings.Count(err.Error(), "failed") != 3 {
		t.Errorf("gave %v", err)
	}
}

func TestAGroupRunsCallsSideBySide(t *testing.T) {
	meet := make(chan struct{})
	err := group{}.Each(t.Context(), 2, func(_ context.Context, i int) error {
		if i == 0 {
			meet <- struct{}{}
		} else {
			<-meet
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAChangeWakesWhomEachWatchOfItsKindNames(t *testing.T) {
	var seen []string
	watch := func(object client.Object, name string) control.Watch {
		return control.Watch{Object: object, Enqueue: func(before, after client.Object) []reconcile.Request {
			seen = append(seen, fmt.Sprintf("%s before=%t after=%t", name, before != nil, after != nil))
			return []reconcile.Request{control.Request("ns", name)}
		}}
	}
	groups := byKind([]control.Watch{watch(&agents.Sandbox{}, "a"), watch(&corev1.Pod{}, "b"), watch(&agents.Sandbox{}, "c")})
	if len(groups) != 2 || len(groups[0]) != 2 || len(groups[1]) != 1 {
		t.Fatalf("groups are %v", groups)
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	handler := wake(groups[0])
	handler.Create(t.Context(), event.CreateEvent{Object: &agents.Sandbox{}}, queue)
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: &agents.Sandbox{}, ObjectNew: &agents.Sandbox{}}, queue)
	handler.Delete(t.Context(), event.DeleteEvent{Object: &agents.Sandbox{}}, queue)
	want := []string{
		"a before=false after=true", "c before=false after=true",
		"a before=true after=true", "c before=true after=true",
		"a before=true after=false", "c before=true after=false",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("watches saw %v", seen)
	}
	if queue.Len() != 2 {
		t.Errorf("%d wait, want a and c", queue.Len())
	}
}

// watcher is a controller that watches Sandboxes.
type watcher struct{ sleeper }

func (*watcher) Watches() []control.Watch {
	return []control.Watch{{Object: &agents.Sandbox{}, Enqueue: func(before, after client.Object) []reconcile.Request {
		if after != nil {
			return nil
		}
		return []reconcile.Request{control.Request("ns", before.GetName())}
	}}}
}

func TestWhatVanishedWakesWhomItsDeletionWould(t *testing.T) {
	all := wakers{}
	all.add(&watcher{})
	var woken []reconcile.Request
	wake := func(controller string, requests ...reconcile.Request) {
		if controller != "sleeper" {
			t.Errorf("woke %s", controller)
		}
		woken = append(woken, requests...)
	}
	gone, other := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	all.tell(gone, gone, nil, wake)
	all.tell(other, other, nil, wake)
	if want := []reconcile.Request{control.Request("ns", "gone")}; !slices.Equal(woken, want) {
		t.Errorf("woke %v, want %v", woken, want)
	}
}

// sleeper is a controller that counts its passes.
type sleeper struct{ passes atomic.Int32 }

func (*sleeper) Name() string             { return "sleeper" }
func (*sleeper) Watches() []control.Watch { return nil }
func (s *sleeper) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	s.passes.Add(1)
	if ctx.Value(controllerKey{}) != "sleeper" {
		return reconcile.Result{}, errors.New("the pass does not know whose it is")
	}
	return reconcile.Result{}, nil
}

func TestNoPassRunsBeforeTheViewsAreCurrent(t *testing.T) {
	current := make(chan struct{})
	s := &sleeper{}
	p := &passes{controller: s, current: current}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Reconcile(ctx, reconcile.Request{}); err != nil || s.passes.Load() != 0 {
		t.Errorf("gave %v after %d passes", err, s.passes.Load())
	}
	close(current)
	if _, err := p.Reconcile(t.Context(), reconcile.Request{}); err != nil || s.passes.Load() != 1 {
		t.Errorf("gave %v after %d passes", err, s.passes.Load())
	}
}

// interrupted is a controller whose process ends during its pass.
type interrupted struct {
	sleeper
	end context.CancelFunc
}

func (i *interrupted) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	i.end()
	return reconcile.Result{}, ctx.Err()
}

func TestAPassThatEndsWithTheProcessIsNoFailure(t *testing.T) {
	current := make(chan struct{})
	close(current)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := (&passes{controller: &interrupted{end: cancel}, current: current}).Reconcile(ctx, reconcile.Request{}); err != nil {
		t.Errorf("gave %v", err)
	}
}

func TestAManagerEndsWhenAStoreCannotBeTrusted(t *testing.T) {
	m := &Manager{checked: make(chan struct{}), stores: []store{{resource: "pods", check: func() error { return consistent.ErrNoStoreVersion }}}}
	if err := m.check(t.Context()); !errors.Is(err, consistent.ErrNoStoreVersion) {
		t.Errorf("gave %v", err)
	}
	select {
	case <-m.Running():
		t.Error("it runs")
	default:
	}
}

func TestReadiness(t *testing.T) {
	done := make(chan struct{})
	close(done)
	for _, c := range []struct {
		name    string
		checked chan struct{}
		synced  bool
		lag     consistent.Lag
		says    string
	}{
		{"not before the stores were checked", make(chan struct{}), true, consistent.Lag{}, "not synced"},
		{"not before the informers have synced", done, false, consistent.Lag{}, "pods has not synced"},
		{"not while an informer is behind", done, true, consistent.Lag{Entries: 3, Oldest: time.Hour}, "pods is behind"},
		{"while a little behind", done, true, consistent.Lag{Entries: 3, Oldest: time.Second}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &Manager{checked: c.checked, stores: []store{{
				resource: "pods", synced: func() bool { return c.synced }, lag: func() consistent.Lag { return c.lag },
			}}}
			err := m.ready(nil)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("says %v", err)
			}
		})
	}
}

func TestLagIsAMetric(t *testing.T) {
	c := lagCollector{[]store{{resource: "pods", lag: func() consistent.Lag { return consistent.Lag{Entries: 3, Oldest: 1500 * time.Millisecond} }}}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	want := `# HELP berth_view_oldest_unseen_write_seconds Age of the oldest write that the informer has not caught up with.
# TYPE berth_view_oldest_unseen_write_seconds gauge
berth_view_oldest_unseen_write_seconds{resource="pods"} 1.5
# HELP berth_view_unseen_writes Objects this process wrote that are held until the informer shows them.
# TYPE berth_view_unseen_writes gauge
berth_view_unseen_writes{resource="pods"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestRequestsGoOverTheConnectionOfTheirController(t *testing.T) {
	type seen struct{ agent, from string }
	requests := make(chan seen, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests <- seen{r.UserAgent(), r.RemoteAddr}
	}))
	defer server.Close()
	c, err := newConnections(&rest.Config{Host: server.URL, UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"claim", "sandbox"} {
		if err := c.add(name); err != nil {
			t.Fatal(err)
		}
	}
	request := func(ctx context.Context) seen {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return <-requests
	}
	claim, sandbox := request(onBehalfOf(t.Context(), "claim")), request(onBehalfOf(t.Context(), "sandbox"))
	if claim.agent != "test/claim" || sandbox.agent != "test/sandbox" {
		t.Errorf("user agents are %q and %q", claim.agent, sandbox.agent)
	}
	if claim.from == sandbox.from {
		t.Error("both came over one connection")
	}
	if again := request(onBehalfOf(t.Context(), "claim")); again.from != claim.from {
		t.Error("a controller's second request came over another connection")
	}
	if other := request(t.Context()); other.agent != "test/views" {
		t.Errorf("a request of no controller has user agent %q", other.agent)
	}
}

func TestTheCacheKeepsWhatControllersRead(t *testing.T) {
	for object, by := range transforms(Options{Extensions: true, AgentRuntimes: true}) {
		if tombstone, err := by.Transform(toolscache.DeletedFinalStateUnknown{Key: "a/b"}); err != nil || tombstone.(toolscache.DeletedFinalStateUnknown).Key != "a/b" {
			t.Errorf("%T: a tombstone becomes %v, %v", object, tombstone, err)
		}
		pod, ok := object.(*corev1.Pod)
		if !ok {
			continue
		}
		pod.Spec.Containers = make([]corev1.Container, 3)
		slim, err := by.Transform(pod)
		if err != nil || slim.(*corev1.Pod).Spec.Containers != nil {
			t.Errorf("a pod becomes %v, %v", slim, err)
		}
	}
}
