// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/leader"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
)

// leases are those of the election.
func leases(t *testing.T) interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error)
} {
	t.Helper()
	client, err := kubernetes.NewForConfig(clustertest.RESTConfig(t, cluster, "test"))
	if err != nil {
		t.Fatal(err)
	}
	return client.CoordinationV1().Leases(deploy.Namespace)
}

func TestAReplicaThatStopsGivesTheLeaseUpAtOnce(t *testing.T) {
	c, namespace := setup(t)
	running := managertest.Start(t, cluster, managertest.Options{
		Controllers: []manager.Controller{signing(namespace, "first")}, LeaderElection: true,
	})
	create(t, c, namespace, "a")
	what, is := signedBy("first")
	await(t, c, namespace, "a", what, is)
	held, err := leases(t).Get(t.Context(), leader.LeaseName, metav1.GetOptions{})
	if err != nil || held.Spec.HolderIdentity == nil || *held.Spec.HolderIdentity == "" {
		t.Fatalf("while it leads the Lease is %v, %v", held, err)
	}
	running.Stop(t)
	released, err := leases(t).Get(t.Context(), leader.LeaseName, metav1.GetOptions{})
	if err != nil || released.Spec.HolderIdentity != nil && *released.Spec.HolderIdentity != "" {
		t.Fatalf("after it stopped the Lease is %v, %v", released, err)
	}
}

func TestAStandbyTakesOver(t *testing.T) {
	c, namespace := setup(t)
	replica := func(mark string) managertest.Options {
		return managertest.Options{Controllers: []manager.Controller{signing(namespace, mark)}, LeaderElection: true, UserAgent: mark}
	}
	first := managertest.Start(t, cluster, replica("first"))
	second := managertest.New(t, cluster, replica("second"))
	requests := second.Requests(t, "signer", func() {
		create(t, c, namespace, "a")
		what, is := signedBy("first")
		await(t, c, namespace, "a", what, is)
	})
	if len(requests) > 0 {
		t.Errorf("the replica that stands by made requests: %v", requests)
	}
	first.Stop(t)
	second.Await(t)
	create(t, c, namespace, "b")
	what, is := signedBy("second")
	await(t, c, namespace, "b", what, is)
}

// cutOff is a transport that loses the renewals of the Lease, and tells when one was
// lost.
type cutOff struct {
	next http.RoundTripper
	on   *atomic.Bool
}

func (c cutOff) RoundTrip(request *http.Request) (*http.Response, error) {
	if c.on.Load() && strings.Contains(request.URL.Path, "/leases/") {
		if request.Body != nil {
			_, _ = io.Copy(io.Discard, request.Body)
			_ = request.Body.Close()
		}
		return nil, errors.New("no route to host")
	}
	return c.next.RoundTrip(request)
}

func TestALeaderThatCannotRenewWritesNothingMore(t *testing.T) {
	c, namespace := setup(t)
	var off atomic.Bool
	running := managertest.Start(t, cluster, managertest.Options{
		Controllers:    []manager.Controller{signing(namespace, "first")},
		LeaderElection: true,
		Config: func(config *rest.Config) {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { return cutOff{next, &off} })
		},
	})
	off.Store(true)
	if err := running.AwaitEnd(t); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Fatalf("the manager ended with %v", err)
	}
	requests := running.Requests(t, "signer", func() { create(t, c, namespace, "a") })
	if writes := clustertest.Writes(requests); len(writes) > 0 {
		t.Errorf("wrote %v", writes)
	}
}

func TestAServerWithoutTheDefinitionsIsReportedAsSuch(t *testing.T) {
	bare := clustertest.ControlPlane(t)
	_, err := manager.New(clustertest.RESTConfig(t, bare, "test"), manager.Options{Extensions: true})
	if err == nil || !strings.Contains(err.Error(), "install the CustomResourceDefinitions first") {
		t.Errorf("gave %v", err)
	}
}
