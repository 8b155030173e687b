// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
)

// frozen is a transport whose watches of Sandboxes bring nothing from when it is frozen
// until it thaws.
type frozen struct {
	mu     sync.Mutex
	thawed chan struct{} // nil while not frozen
	asked  chan struct{} // closed once somebody lists Sandboxes while it is frozen
}

func (f *frozen) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thawed, f.asked = make(chan struct{}), make(chan struct{})
}

func (f *frozen) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil || !strings.HasSuffix(request.URL.Path, "/sandboxes") {
			return response, err
		}
		if request.URL.Query().Get("watch") == "true" || request.URL.Query().Get("watch") == "1" {
			response.Body = &frozenBody{ReadCloser: response.Body, frozen: f, ctx: request.Context()}
			return response, nil
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.thawed != nil && request.Method == http.MethodGet && strings.HasSuffix(request.UserAgent(), "/catch-up") {
			select {
			case <-f.asked:
			default:
				close(f.asked)
			}
		}
		return response, nil
	})
}

type frozenBody struct {
	io.ReadCloser
	frozen *frozen
	ctx    context.Context
}

func (b *frozenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.frozen.mu.Lock()
	thawed := b.frozen.thawed
	b.frozen.mu.Unlock()
	if thawed != nil {
		select {
		case <-thawed:
		case <-b.ctx.Done():
		}
	}
	return n, err
}

// looker tells, at its first pass, whether its view shows a Sandbox.
type looker struct {
	views    kinds.Views
	wanted   reconcile.Request
	passed   sync.Once
	answered chan bool
}

func (*looker) Name() string { return "looker" }

func (l *looker) Watches() []control.Watch {
	return []control.Watch{{Object: &agents.Sandbox{}, Enqueue: func(_, after client.Object) []reconcile.Request {
		if after == nil || after.GetNamespace() != l.wanted.Namespace {
			return nil
		}
		return []reconcile.Request{control.Request(after.GetNamespace(), after.GetName())}
	}}}
}

func (l *looker) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	_, there, err := l.views.Sandboxes.Get(ctx, l.wanted.NamespacedName)
	if err == nil {
		l.passed.Do(func() { l.answered <- there })
	}
	return reconcile.Result{}, err
}

func TestANewLeaderSeesWhatTheFormerOneMade(t *testing.T) {
	c, namespace := setup(t)
	first := managertest.Start(t, cluster, managertest.Options{
		Controllers: []manager.Controller{signing(namespace, "first")}, LeaderElection: true, UserAgent: "first",
	})
	create(t, c, namespace, "a")
	what, is := signedBy("first")
	await(t, c, namespace, "a", what, is)

	// The second one knows a, and its informer then lags.
	var watch frozen
	l := &looker{wanted: control.Request(namespace, "b"), answered: make(chan bool, 1)}
	second := managertest.New(t, cluster, managertest.Options{
		Controllers: []manager.Controller{{Events: "looker", New: func(_ control.Environment, views kinds.Views) control.Controller {
			l.views = views
			return l
		}}},
		LeaderElection: true, UserAgent: "second",
		Config: func(config *rest.Config) { config.Wrap(watch.wrap) },
	})
	<-second.Running()
	watch.freeze()
	create(t, c, namespace, "b")
	await(t, c, namespace, "b", what, is)

	first.Stop(t)
	<-second.Elected()
	select { // whichever it does first
	case <-watch.asked:
		close(watch.thawed)
	case there := <-l.answered:
		close(watch.thawed)
		if !there {
			t.Error("the new leader worked before it saw what the former one had seen")
		}
		return
	}
	if there := <-l.answered; !there {
		t.Error("the new leader's first pass did not see what the former one had seen")
	}
}
