// SPDX-License-Identifier: Apache-2.0

// Package clustertest gives tests a cluster of their own: a real API server in a few seconds, or a node
// with real pods where the machine can run them.
//
// A package with many tests starts one cluster in TestMain:
//
//	var cluster *localcluster.Cluster
//
//	func TestMain(m *testing.M) { os.Exit(clustertest.Main(m, &cluster, clustertest.WithAudit())) }
//
// and a test that needs one to itself calls ControlPlane or Node. The clusters end with the test, or
// with its process however that ends.
package clustertest

import (
	"context"
	"fmt"
	"os"
	"path"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/internal/localcluster"
)

// stopLimit is for stopping a cluster.
const stopLimit = 2 * time.Minute

// Option changes what kind of cluster a test gets.
type Option func(*localcluster.Options)

// WithControllerManager adds the controller manager: garbage collection, namespaces' deletion, service
// accounts. The garbage collector looks for new kinds twice a minute: call
// cluster.Part(localcluster.ControllerManager).Restart after installing CustomResourceDefinitions.
func WithControllerManager() Option {
	return func(o *localcluster.Options) { o.ControllerManager = true }
}

// WithScheduler adds the controller manager and the scheduler, as Cluster.FakeNodes needs them.
func WithScheduler() Option {
	return func(o *localcluster.Options) { o.ControllerManager, o.Scheduler = true, true }
}

// WithAudit keeps a log of requests, which Requests reads.
func WithAudit() Option {
	return func(o *localcluster.Options) { o.Audit = true }
}

// WithAPIServerFlags adds flags such as "--max-requests-inflight=10".
func WithAPIServerFlags(flags ...string) Option {
	return func(o *localcluster.Options) { o.APIServerFlags = append(o.APIServerFlags, flags...) }
}

// ControlPlane starts etcd and an API server for this test.
func ControlPlane(t testing.TB, options ...Option) *localcluster.Cluster {
	t.Helper()
	return start(t, localcluster.ControlPlane, options)
}

// Node starts a whole cluster for this test, or skips the test where real pods cannot run.
func Node(t testing.TB, options ...Option) *localcluster.Cluster {
	t.Helper()
	if problem := localcluster.NodeProblem(); problem != "" {
		t.Skip("skipped: " + problem)
	}
	return start(t, localcluster.Node, options)
}

func start(t testing.TB, mode localcluster.Mode, options []Option) *localcluster.Cluster {
	t.Helper()
	wanted := localcluster.Options{Name: "berth-test", Mode: mode, EndWithStarter: true}
	for _, option := range options {
		option(&wanted)
	}
	cluster, err := begin(context.Background(), wanted)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && os.Getenv(keepVariable) != "" {
			t.Logf("the cluster's files are kept in %s", cluster.Dir())
			return
		}
		if err := end(cluster); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// keepVariable is the environment variable that keeps the files of a failed test's cluster.
const keepVariable = "BERTH_KEEP_CLUSTER"

// begin starts a cluster in a new directory.
func begin(ctx context.Context, options localcluster.Options) (*localcluster.Cluster, error) {
	parent, err := localcluster.DefaultDir("tests")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	if err := localcluster.Sweep(ctx, parent); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return nil, err
	}
	options.Dir = dir
	cluster, err := localcluster.Start(ctx, options)
	if err == nil {
		return cluster, nil
	}
	if left, missing := localcluster.Open(dir); missing == nil {
		err = fmt.Errorf("%w\n(stopping it: %w)", err, end(left))
	} else {
		os.RemoveAll(dir)
	}
	return nil, err
}

func end(cluster *localcluster.Cluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	return cluster.Stop(ctx)
}

// Main runs the tests of a package with one control plane, which it puts into cluster for them, and
// returns the exit code.
func Main(m *testing.M, cluster **localcluster.Cluster, options ...Option) int {
	wanted := localcluster.Options{Name: "berth-test", Mode: localcluster.ControlPlane, EndWithStarter: true}
	for _, option := range options {
		option(&wanted)
	}
	started, err := begin(context.Background(), wanted)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*cluster = started
	code := m.Run()
	if err := end(started); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// RESTConfig is the administrator's configuration for a cluster, named so that its requests can be
// told apart in Requests.
func RESTConfig(t testing.TB, cluster *localcluster.Cluster, userAgent string) *rest.Config {
	t.Helper()
	config, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = userAgent
	return config
}

// Requests returns the requests that the API server answered to one user agent while during ran. Its
// work must be over when during returns; what is answered later is not counted. The cluster needs
// WithAudit.
func Requests(t testing.TB, cluster *localcluster.Cluster, userAgent string, during func()) []localcluster.Request {
	t.Helper()
	_, mark, err := cluster.Requests(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	during()
	all, _, err := cluster.Requests(t.Context(), mark)
	if err != nil {
		t.Fatal(err)
	}
	var own []localcluster.Request
	for _, request := range all {
		if request.UserAgent == userAgent {
			own = append(own, request)
		}
	}
	return own
}

// Writes counts the requests that change something by verb and resource, such as "patch sandboxes/status".
func Writes(requests []localcluster.Request) map[string]int {
	counts := map[string]int{}
	for _, request := range requests {
		if request.Writes() {
			counts[request.Verb+" "+path.Join(request.Resource, request.Subresource)]++
		}
	}
	return counts
}
