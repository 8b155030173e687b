// SPDX-License-Identifier: Apache-2.0

// Package manager_test runs managers with a small controller against a real API server.
package manager_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	"github.com/berthdev/berth/internal/consistent"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
)

// limit is for something that happens at once to have happened on a slow machine.
const limit = time.Minute

var cluster *localcluster.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(quiet())
	os.Exit(clustertest.Main(m, &cluster, clustertest.WithAudit()))
}

// signer marks every Sandbox of one namespace with its name, and counts passes.
type signer struct {
	env       control.Environment
	views     kinds.Views
	namespace string
	mark      string

	mu     sync.Mutex
	passes int
}

func (*signer) Name() string { return "signer" }

func (s *signer) Watches() []control.Watch {
	return []control.Watch{
		{Object: &agents.Sandbox{}, Enqueue: func(_, after client.Object) []reconcile.Request {
			if after == nil || after.GetNamespace() != s.namespace {
				return nil
			}
			return []reconcile.Request{control.Request(after.GetNamespace(), after.GetName())}
		}},
		// A second watch of a kind: it wakes nobody else.
		{Object: &agents.Sandbox{}, Enqueue: func(_, _ client.Object) []reconcile.Request { return nil }},
	}
}

func (s *signer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	s.mu.Lock()
	s.passes++
	s.mu.Unlock()
	sandbox, ok, err := s.views.Sandboxes.Get(ctx, request.NamespacedName)
	if err != nil || !ok || sandbox.Annotations["signed-by"] == s.mark {
		return reconcile.Result{}, err
	}
	_, err = s.views.Sandboxes.Patch(ctx, sandbox, consistent.Patch{
		"metadata": map[string]any{"annotations": map[string]any{"signed-by": s.mark}},
	})
	return reconcile.Result{}, err
}

func signing(namespace, mark string) manager.Controller {
	return manager.Controller{Events: "signer", Workers: 4, New: func(env control.Environment, views kinds.Views) control.Controller {
		return &signer{env: env, views: views, namespace: namespace, mark: mark}
	}}
}

var install sync.Once

// setup installs the definitions, once, and makes a namespace of the test's own.
func setup(t *testing.T) (client.WithWatch, string) {
	t.Helper()
	install.Do(func() { managertest.Install(t, cluster) })
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "test"), client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "manager-"}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return c, namespace.Name
}

func create(t *testing.T, c client.Client, namespace, name string) {
	t.Helper()
	sandbox := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	sandbox.Spec.PodTemplate.Spec.Containers = []corev1.Container{{Name: "main", Image: "busybox"}}
	if err := c.Create(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
}

// await watches the Sandboxes of a namespace until the named one is as wanted.
func await(t *testing.T, c client.WithWatch, namespace, name, what string, wanted func(*agents.Sandbox) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	watching, err := c.Watch(ctx, &agents.SandboxList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		if sandbox, ok := event.Object.(*agents.Sandbox); ok && sandbox.Name == name && wanted(sandbox) {
			return
		}
	}
	t.Fatalf("%s is not %s", name, what)
}

func signedBy(mark string) (string, func(*agents.Sandbox) bool) {
	return fmt.Sprintf("signed by %s", mark), func(s *agents.Sandbox) bool { return s.Annotations["signed-by"] == mark }
}

// freeAddress is one that nothing listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// quiet is a logger that says nothing.
func quiet() logr.Logger { return funcr.New(func(string, string) {}, funcr.Options{}) }
