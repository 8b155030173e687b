// SPDX-License-Identifier: Apache-2.0

// Package manager runs controllers against an API server: it gives them their views,
// wakes them, elects a leader among replicas, and reports health and metrics.
package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/leader"
)

// The election's times, which are client-go's own. Others take over LeaseDuration
// after they last saw a renewal; this process stops writing RenewDeadline after it
// sent one. The difference is what a request may be on its way.
const (
	LeaseDuration = 15 * time.Second
	RenewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

const (
	// stopLimit is how long reconciles under way may take to end when the manager stops.
	stopLimit = 20 * time.Second
	// earlyStopLimit is how long a stop may take before anything acts.
	earlyStopLimit = time.Second
)

// Controller says how to make one controller and how to run it.
type Controller struct {
	// Events is the name it reports events under.
	Events string
	// Workers is how many objects it reconciles at once; 0 is 1.
	Workers int
	New     func(control.Environment, kinds.Views) control.Controller
}

// Options are what a Manager is made of. The zero value of everything but Controllers
// runs them without election, metrics and health endpoints.
type Options struct {
	Controllers []Controller
	// Extensions adds the kinds of extensions.agents.x-k8s.io and network policies.
	// Without it their views are nil.
	Extensions bool
	// AgentRuntimes adds the kinds that AgentRuntimes are about.
	AgentRuntimes bool
	// SandboxesElsewhere is for clusters whose Sandboxes another controller runs: they
	// are looked at in whatever version the server has, if it has any, and no kind that
	// only a controller of Sandboxes needs is watched. It goes without Extensions.
	SandboxesElsewhere bool

	// LeaderElection runs the controllers only while this process holds the Lease in
	// LeaseNamespace.
	LeaderElection bool
	LeaseNamespace string
	// LeaseName is empty for leader.LeaseName.
	LeaseName string

	// MetricsAddress and HealthAddress are host:port; empty serves nothing.
	MetricsAddress string
	HealthAddress  string
	// Handlers are served beside the metrics, by path.
	Handlers map[string]http.Handler
	// Registry takes the manager's own metrics; nil is controller-runtime's, which
	// MetricsAddress serves.
	Registry prometheus.Registerer
	// Logger is used by everything; the zero value is controller-runtime's global one.
	Logger logr.Logger
}

// Manager runs controllers until its context ends.
type Manager struct {
	manager  ctrlmanager.Manager
	stores   []store
	registry prometheus.Registerer
	queues   queues
	wakers   wakers
	checked  chan struct{} // closed once the views can be trusted
	current  chan struct{} // closed once they show what was there when this process began to lead
	versions versions
	census   *census
	watches  *http.Client
	served   *servedSandboxes // nil unless another controller runs the Sandboxes
}

// New returns a manager for the API server of config. It asks the server which kinds
// it knows and starts nothing.
func New(server *rest.Config, o Options) (*Manager, error) {
	if o.Registry == nil {
		o.Registry = metrics.Registry
	}
	fence := leader.NewFence(clock.RealClock{}, RenewDeadline)
	// The Lease is written past the fence, which only it opens.
	lease := rest.CopyConfig(server)
	server = rest.CopyConfig(server)
	if server.QPS > 0 && server.RateLimiter == nil {
		// One limit for all clients that are made from this configuration.
		server.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(server.QPS, server.Burst)
	}
	if o.LeaderElection {
		server.Wrap(fence.Wrap)
	}
	watches, err := ownConnection(server, "watch", 0)
	if err != nil {
		return nil, err
	}
	options := ctrlmanager.Options{
		Scheme:                        Scheme(),
		Logger:                        o.Logger,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              leader.LeaseName,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(LeaseDuration),
		RenewDeadline:                 ptr.To(RenewDeadline),
		RetryPeriod:                   ptr.To(retryPeriod),
		GracefulShutdownTimeout:       ptr.To(stopLimit),
		HealthProbeBindAddress:        off(o.HealthAddress),
		Metrics:                       metricsserver.Options{BindAddress: off(o.MetricsAddress), ExtraHandlers: o.Handlers},
		Cache:                         cache.Options{HTTPClient: watches, ByObject: transforms(o), ReaderFailOnMissingInformer: true},
		// Names in metrics need not be unique among managers of one process.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	if o.LeaderElection {
		if options.LeaderElectionResourceLockInterface, err = newLock(lease, o.LeaseNamespace, cmp.Or(o.LeaseName, leader.LeaseName), fence); err != nil {
			return nil, err
		}
	}
	inner, err := ctrlmanager.New(server, options)
	if err != nil {
		return nil, explained(err)
	}
	m := &Manager{
		manager: inner, registry: o.Registry, checked: make(chan struct{}), current: make(chan struct{}), census: newCensus(), watches: watches,
		wakers: wakers{},
		queues: queues{byName: map[string]workqueue.TypedRateLimitingInterface[reconcile.Request]{}},
	}
	if err := m.build(server, o); err != nil {
		return nil, err
	}
	return m, nil
}

func newLock(config *rest.Config, namespace, name string, fence *leader.Fence) (resourcelock.Interface, error) {
	if namespace == "" {
		found, err := leader.Namespace()
		if err != nil {
			return nil, fmt.Errorf("%w; name the Lease's namespace", err)
		}
		namespace = found
	}
	return leader.NewLock(named(config, "leader-election"), namespace, name, RenewDeadline/2, fence)
}

func (m *Manager) build(server *rest.Config, o Options) error {
	connections, err := newConnections(server)
	if err != nil {
		return err
	}
	views, err := m.buildViews(server, connections.client(), o)
	if err != nil {
		return explained(err)
	}
	if m.versions, err = serverVersions(server); err != nil {
		return err
	}
	for _, c := range o.Controllers {
		environment := newEnvironment(shortNotes{m.manager.GetEventRecorder(c.Events)}, m.queues.wake)
		if err := m.run(c.New(environment, views), c.Workers, connections); err != nil {
			return err
		}
	}
	if m.served != nil {
		if err := m.manager.Add(always(m.served.run)); err != nil {
			return err
		}
	}
	return errors.Join(
		m.manager.Add(always(m.check)),
		m.manager.Add(always(m.sweep)),
		m.manager.Add(ctrlmanager.RunnableFunc(m.catchUp)), // only where the controllers run
		m.manager.AddHealthzCheck("ping", healthz.Ping),
		m.manager.AddReadyzCheck("views", m.ready),
	)
}

// Start runs everything until ctx ends, and then gives the Lease up at once, or until
// something fails for good, such as the lead being lost. After an error the process
// has to end.
func (m *Manager) Start(ctx context.Context) error {
	own := ownMetrics{lagCollector{m.stores}, whileLeading{m.census, m.manager.Elected()}}
	if err := m.registry.Register(own); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	defer m.registry.Unregister(own)
	ended := make(chan error, 1)
	go func() { ended <- m.manager.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-m.checked:
		return <-ended
	case <-ctx.Done():
	}
	// controller-runtime does not come back from waiting for informers to sync. Nothing
	// acts before that, and there is no Lease to give up.
	early := time.NewTimer(earlyStopLimit)
	defer early.Stop()
	select {
	case err := <-ended:
		return err
	case <-m.checked:
		return <-ended
	case <-early.C:
		return nil
	}
}

// Running is closed when the informers have synced and their stores can be trusted.
func (m *Manager) Running() <-chan struct{} { return m.checked }

// Elected is closed when the controllers start, as leader or because there is no
// election.
func (m *Manager) Elected() <-chan struct{} { return m.manager.Elected() }

// explained adds to an error of talking to the server what a person can do about it.
func explained(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%w; install the CustomResourceDefinitions first: kubectl apply -f deploy/crds", err)
	}
	return fmt.Errorf("reach the API server: %w", err)
}

// off is controller-runtime's word for no server.
func off(address string) string {
	if address == "" {
		return "0"
	}
	return address
}

// always is a part of the program that runs on every replica, leader or not, once the
// caches are synced.
type always func(context.Context) error

// Start implements controller-runtime's Runnable.
func (a always) Start(ctx context.Context) error { return a(ctx) }

// NeedLeaderElection implements controller-runtime's LeaderElectionRunnable.
func (always) NeedLeaderElection() bool { return false }
