// SPDX-License-Identifier: Apache-2.0

// Package crash_test kills the controllers' program in the middle of its work, again
// and again, and checks from the outside that no claim notices more than a delay.
package crash_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/history"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
	"github.com/berthdev/berth/internal/replica"
)

// limit is for a burst of claims to be served on a slow machine.
const limit = 5 * time.Minute

var (
	cluster *localcluster.Cluster
	program string // the controllers' program
	setUp   sync.Once
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "berth-crash-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program, err = replica.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return clustertest.Main(m, &cluster, clustertest.WithScheduler())
}

// stage is one test's namespace.
type stage struct {
	*testing.T
	client.WithWatch
	namespace  string
	kubeconfig string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	setUp.Do(func() {
		managertest.Install(t, cluster)
		if err := cluster.FakeNodes(context.Background(), 3); err != nil {
			t.Fatal(err)
		}
	})
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "test"), client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, WithWatch: c}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "crash-"}}
	s.must(s.Create(s.Context(), namespace))
	s.namespace = namespace.Name
	s.Cleanup(func() { _ = s.Delete(context.Background(), namespace) })
	s.kubeconfig = s.limited()
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// limited writes a kubeconfig that has the rights of the manifests and no others.
func (s *stage) limited() string {
	s.Helper()
	config, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	s.must(err)
	for _, user := range config.AuthInfos {
		impersonate(user)
	}
	file := filepath.Join(s.TempDir(), "kubeconfig")
	s.must(clientcmd.WriteToFile(*config, file))
	return file
}

func impersonate(user *clientcmdapi.AuthInfo) {
	user.Impersonate = "system:serviceaccount:" + deploy.Namespace + ":" + deploy.ControllerName
	user.ImpersonateGroups = []string{"system:serviceaccounts", "system:authenticated"}
}

// start starts a replica, which is killed at the end of the test at the latest.
func (s *stage) start(flags ...string) *replica.Replica {
	s.Helper()
	r, err := replica.Start(replica.Options{Program: program, Kubeconfig: s.kubeconfig, Flags: flags})
	s.must(err)
	s.Cleanup(func() {
		r.Kill()
		if err := r.Err(); err != nil {
			s.Error(err)
		} else if s.Failed() {
			s.Logf("the controllers' log:\n%s", r.Log())
		}
	})
	return r
}

// watch begins the history, before the controllers begin.
func (s *stage) watch() *history.History {
	s.Helper()
	h, err := history.Begin(s.Context(), cluster.EtcdURL(), s.namespace)
	s.must(err)
	s.Cleanup(h.Close)
	return h
}

// settled waits until so many claims have their Sandboxes and everything is in order.
func (s *stage) settled(seen *history.History, claims int) {
	s.Helper()
	s.until(func(ctx context.Context) error {
		return seen.Until(ctx, func(now *history.State) string {
			if len(now.Pools) == 0 {
				return "the pool was not seen yet"
			}
			return now.UnsettledWith(claims)
		})
	})
}

// reach waits until so many steps were taken.
func (s *stage) reach(seen *history.History, steps int) {
	s.Helper()
	s.until(func(ctx context.Context) error { return seen.Reach(ctx, steps) })
}

func (s *stage) until(wait func(context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	s.must(wait(ctx))
}

// pool makes a template and a full pool of it.
func (s *stage) pool(name string, replicas int32) *extensions.SandboxWarmPool {
	s.Helper()
	t := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	t.Spec.PodTemplate = agents.PodTemplate{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox:1.36", Command: []string{"sleep", "3600"}}}},
	}
	s.must(s.Create(s.Context(), t))
	p := &extensions.SandboxWarmPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       extensions.SandboxWarmPoolSpec{Replicas: ptr.To(replicas), TemplateRef: extensions.SandboxTemplateRef{Name: name}},
	}
	s.must(s.Create(s.Context(), p))
	return p
}

// burst makes claims side by side in the background; the function it returns waits
// until they are made.
func (s *stage) burst(pool string, n int) func() {
	const clients = 8
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for number := i; number < n; number += clients {
				err := s.Create(s.Context(), &extensions.SandboxClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: fmt.Sprintf("task-%03d", number)},
					Spec:       extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: pool}},
				})
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	return group.Wait
}
