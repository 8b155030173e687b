// SPDX-License-Identifier: Apache-2.0

// Package managertest runs controllers inside a test, against a real API server, with the
// rights that the manifests give them.
//
//	func TestMain(m *testing.M) {
//		os.Exit(clustertest.Main(m, &cluster, clustertest.WithAudit()))
//	}
//
//	func TestSomething(t *testing.T) {
//		managertest.Install(t, cluster)
//		running := managertest.Start(t, cluster, managertest.Options{
//			Controllers: []manager.Controller{{New: func(env control.Environment, views kinds.Views) control.Controller {
//				return sandbox.New(env, views, sandbox.Options{})
//			}}},
//		})
//		requests := running.Requests(t, "sandbox", func() { ... })
//		running.Restart(t)
//	}
package managertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
)

// limit is for a manager to start or stop, and for a cluster to take what is
// installed up. Slow machines run many tests at once.
const limit = 2 * time.Minute

// user is who the controllers are in a cluster. They get no other rights in tests.
const user = "system:serviceaccount:" + deploy.Namespace + ":" + deploy.ControllerName

// Options say what to run.
type Options struct {
	// Controllers are run with all kinds, those of the extensions included.
	Controllers []manager.Controller
	// AgentRuntimes and SandboxesElsewhere are those of manager.Options. Without the
	// Sandboxes there are no extensions.
	AgentRuntimes, SandboxesElsewhere bool
	// UserAgent is what the manager's requests begin with; empty is the test's name.
	// The requests a controller makes are told apart by Manager.UserAgent.
	UserAgent string
	// LeaderElection runs the controllers only while they lead.
	LeaderElection bool
	// Config changes the configuration that the manager gets.
	Config func(*rest.Config)
}

// Manager is a manager that runs in this process.
type Manager struct {
	cluster *localcluster.Cluster
	options Options
	current *instance
}

// instance is one life of a manager.
type instance struct {
	manager *manager.Manager
	line    *line
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // with which it ended
}

// Install applies the definitions, the policies and the controller's rights to the
// cluster and waits until they are in effect. With a controller manager it restarts it, so that it collects the garbage
// of the new kinds at once.
func Install(t testing.TB, cluster *localcluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	config := clustertest.RESTConfig(t, cluster, "install")
	if err := deploy.Install(ctx, config); err != nil {
		t.Fatal(err)
	}
	rights, err := deploy.Rights()
	if err != nil {
		t.Fatal(err)
	}
	if err := deploy.Apply(ctx, config, "", rights); err != nil {
		t.Fatal(err)
	}
	for _, part := range cluster.Status() {
		if part.Name != localcluster.ControllerManager {
			continue
		}
		if err := cluster.Part(localcluster.ControllerManager).Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// Start runs controllers until the test ends, and returns when their informers have
// synced and, with election, when they lead.
func Start(t testing.TB, cluster *localcluster.Cluster, options Options) *Manager {
	t.Helper()
	m := New(t, cluster, options)
	m.Await(t)
	return m
}

// New is Start without waiting, for a replica that another leads.
func New(t testing.TB, cluster *localcluster.Cluster, options Options) *Manager {
	t.Helper()
	if options.UserAgent == "" {
		options.UserAgent = t.Name()
	}
	m := &Manager{cluster: cluster, options: options}
	m.start(t)
	t.Cleanup(func() { m.Stop(t) })
	return m
}

func (m *Manager) start(t testing.TB) {
	t.Helper()
	config := clustertest.RESTConfig(t, m.cluster, m.options.UserAgent)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	if m.options.Config != nil {
		m.options.Config(config)
	}
	i := &instance{line: newLine(), ended: make(chan struct{})}
	config.Wrap(i.line.wrap)
	made, err := manager.New(config, manager.Options{
		Controllers: m.options.Controllers, Extensions: !m.options.SandboxesElsewhere,
		AgentRuntimes: m.options.AgentRuntimes, SandboxesElsewhere: m.options.SandboxesElsewhere,
		LeaderElection: m.options.LeaderElection, LeaseNamespace: deploy.Namespace,
		Registry: prometheus.NewRegistry(), Logger: logger(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	i.manager, i.stop = made, stop
	go func() {
		defer close(i.ended)
		i.err = made.Start(ctx)
	}()
	m.current = i
}

// Await returns when the controllers run.
func (m *Manager) Await(t testing.TB) {
	t.Helper()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for _, signal := range []<-chan struct{}{m.current.manager.Running(), m.current.manager.Elected()} {
		select {
		case <-signal:
		case <-m.current.ended:
			t.Fatalf("the manager ended: %v", m.current.err)
		case <-timeout.C:
			t.Fatal("the controllers do not run: the informers have not synced, or another leads")
		}
	}
}

// Elected is closed when the controllers run, as leader if there is an election.
func (m *Manager) Elected() <-chan struct{} { return m.current.manager.Elected() }

// AwaitEnd returns the error with which the manager ends of its own accord.
func (m *Manager) AwaitEnd(t testing.TB) error {
	t.Helper()
	i := m.current
	m.current = nil
	i.await(t)
	return i.err
}

// Stop ends the controllers as a signal to terminate does, and waits. It may be called
// again.
func (m *Manager) Stop(t testing.TB) {
	t.Helper()
	m.end(t, false)
}

// Kill ends the controllers like a crash: from now on no request of theirs reaches the
// server, and no reply reaches them. Nothing they know survives. A request under way
// may have landed.
func (m *Manager) Kill(t testing.TB) {
	t.Helper()
	if m.current != nil {
		m.current.line.cut()
	}
	m.end(t, true)
}

// Restart starts the controllers anew, as another process would, after Stop or Kill;
// if they run, it stops them first. It returns when they run.
func (m *Manager) Restart(t testing.TB) {
	t.Helper()
	m.Stop(t)
	m.start(t)
	m.Await(t)
}

func (m *Manager) end(t testing.TB, killed bool) {
	t.Helper()
	if m.current == nil {
		return
	}
	i := m.current
	m.current = nil
	i.stop()
	i.await(t)
	if i.err != nil && !killed && !errors.Is(i.err, context.Canceled) {
		t.Errorf("the manager ended: %v", i.err)
	}
}

func (i *instance) await(t testing.TB) {
	t.Helper()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-i.ended:
	case <-timeout.C:
		t.Fatal("the manager does not end")
	}
}

// UserAgent is the user agent of the requests a controller makes.
func (m *Manager) UserAgent(controller string) string {
	return m.options.UserAgent + "/" + controller
}

// Requests returns the requests that a controller made while during ran, see
// clustertest.Requests. Informers make requests of their own, under UserAgent("watch").
func (m *Manager) Requests(t testing.TB, controller string, during func()) []localcluster.Request {
	t.Helper()
	return clustertest.Requests(t, m.cluster, m.UserAgent(controller), during)
}

// Running is closed when the informers have synced.
func (m *Manager) Running() <-chan struct{} { return m.current.manager.Running() }
