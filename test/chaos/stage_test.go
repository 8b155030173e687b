// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/faultproxy"
	"github.com/berthdev/berth/internal/history"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/replica"
)

const (
	// limit is for everything to be in order after a round, on a slow machine.
	limit = 15 * time.Minute
	// quiet is how long nothing changes when everything is done.
	quiet = 5 * time.Second
	// again is how soon somebody whose request failed tries again.
	again = 200 * time.Millisecond
)

// number reads a setting of the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv("CHAOS_" + name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("CHAOS_%s=%q is no number", name, text)
	}
	return n
}

// stage is where the rounds take place.
type stage struct {
	*testing.T
	client.WithWatch // of people, past the proxies
	namespace        string
	seen             *history.History
	sides            [2]*side
	leading          atomic.Int32 // which side became the leader last
	clients          *clients
	parts            sync.Mutex // one part of the cluster is restarted at a time

	mu     sync.Mutex
	counts map[string]int // faults by kind
	rounds int
}

// side is a replica and the way it reaches the API server.
type side struct {
	*replica.Replica
	proxy *faultproxy.Proxy
}

func newStage(t *testing.T) *stage {
	t.Helper()
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "people"), client.Options{Scheme: manager.Scheme()})
	s := &stage{T: t, WithWatch: c, counts: map[string]int{}}
	s.must(err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "chaos-"}}
	s.must(s.Create(t.Context(), namespace))
	s.namespace = namespace.Name
	s.seen, err = history.Begin(t.Context(), cluster.EtcdURL(), s.namespace)
	s.must(err)
	t.Cleanup(s.seen.Close)
	s.clients = newClients(s)
	s.bystander()
	s.pool("shared", 6, extensions.WarmPoolOnReplenish)
	s.pool("strict", 5, extensions.WarmPoolRecreate)
	s.pool("rolling", 4, extensions.WarmPoolRollingUpdate)
	for i := range s.sides {
		s.sides[i] = s.start(i)
	}
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// start starts a replica with the rights of the manifests and no others.
func (s *stage) start(which int) *side {
	s.Helper()
	proxy, err := faultproxy.Start(clustertest.RESTConfig(s.T, cluster, ""))
	s.must(err)
	s.Cleanup(proxy.Close)
	kubeconfig := filepath.Join(s.TempDir(), "kubeconfig")
	s.must(proxy.WriteKubeconfig(kubeconfig, rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":" + deploy.ControllerName,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}))
	r, err := replica.Start(replica.Options{
		Program: program, Kubeconfig: kubeconfig, Restart: time.Second,
		Flags: []string{"--leader-elect", "--leader-election-namespace=" + deploy.Namespace},
		Leads: func() { s.leading.Store(int32(which)) },
	})
	s.must(err)
	s.Cleanup(func() {
		r.Kill()
		if s.Failed() {
			s.Logf("replica %d, started %d times, said:\n%s", which, r.Starts(), r.Log())
		}
	})
	return &side{Replica: r, proxy: proxy}
}

// leader is the side that leads, or did last.
func (s *stage) leader() *side { return s.sides[s.leading.Load()] }

// pool makes a template and a pool of the same name.
func (s *stage) pool(name string, replicas int32, strategy extensions.SandboxWarmPoolUpdateStrategyType) {
	s.Helper()
	t := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	t.Spec.PodTemplate = agents.PodTemplate{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image(0), Command: []string{"sleep", "3600"}}}},
	}
	s.must(s.Create(s.Context(), t))
	s.must(s.Create(s.Context(), &extensions.SandboxWarmPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: extensions.SandboxWarmPoolSpec{
			Replicas: ptr.To(replicas), TemplateRef: extensions.SandboxTemplateRef{Name: name},
			UpdateStrategy: &extensions.SandboxWarmPoolUpdateStrategy{Type: strategy},
		},
	}))
}

func image(edition int) string { return fmt.Sprintf("example.com/sandbox:%d", edition) }

// bystander is somebody's pod that wears the labels of one that is a Sandbox's.
func (s *stage) bystander() {
	s.Helper()
	s.must(s.Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: "bystander",
			Labels: map[string]string{agents.LabelSandboxNameHash: agents.NameHash("c1-000")},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image(0)}}},
	}))
}

// insist makes a request until the server has answered it.
func (s *stage) insist(ctx context.Context, request func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, again, true, func(ctx context.Context) (bool, error) {
		last = request(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w (%w)", err, last)
	}
	return nil
}

// after waits for a time, and reports whether the round still goes on.
func after(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// round lets one schedule happen, and holds that afterwards everything is in order.
func (s *stage) round(seed, number int) {
	s.Helper()
	plan := newSchedule(seed, number)
	s.Logf("round %d (CHAOS_SEED=%d):\n%s", number, seed, plan)
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	var all sync.WaitGroup
	for _, event := range plan.events {
		all.Go(func() {
			if after(ctx, event.at) {
				s.count(event.kind.name)
				event.kind.happen(ctx, s, event)
			}
		})
	}
	for _, burst := range plan.bursts {
		all.Go(func() {
			if after(ctx, burst.at) {
				s.clients.burst(ctx, burst)
			}
		})
	}
	all.Wait()
	s.revive(ctx)
	s.settled(ctx, s.clients.kept())
	s.clients.compare()
	s.clients.releaseAll(ctx)
	s.settled(ctx, 0)
	if s.Failed() {
		s.FailNow()
	}
	s.rounds++
}

// settled waits until everything is in order and nobody writes any more.
func (s *stage) settled(ctx context.Context, claims int) {
	s.Helper()
	s.must(s.seen.Until(ctx, func(now *history.State) string {
		if len(now.Claims) != claims {
			return fmt.Sprintf("there are %d claims, not %d", len(now.Claims), claims)
		}
		return now.Unsettled()
	}))
	s.must(s.seen.Quiet(ctx, quiet))
	// What was in order before the last write is so after it.
	s.must(s.seen.Until(ctx, (*history.State).Unsettled))
	for _, side := range s.sides {
		s.must(side.Err())
	}
}

func (s *stage) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// summary prints what was gone through.
func (s *stage) summary() {
	var text strings.Builder
	fmt.Fprintf(&text, "%d schedules, %d claims (%d bound), %d changes in the store, replicas started %d times; faults:\n",
		s.rounds, s.clients.made(), s.seen.Bound(), s.seen.Changes(), s.sides[0].Starts()+s.sides[1].Starts())
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&text, "%5d  %s\n", s.counts[what], what)
	}
	fmt.Println(text.String())
}
