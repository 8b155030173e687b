// SPDX-License-Identifier: Apache-2.0

// Package crash_test kills the controllers' program in the middle of its work, again
// and again, and checks from the outside that no claim notices more than a delay.
package crash_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
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
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
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
	program = filepath.Join(dir, "berth-controller")
	build := exec.Command("go", "build", "-o", program, "github.com/berthdev/berth/cmd/berth-controller")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, out)
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

// replica runs the controllers' program as a Deployment does: when it ends because it
// lost the lead, which on a busy machine happens, it is started again.
type replica struct {
	stage *stage
	flags []string
	log   bytes.Buffer // written while a process runs
	ended chan struct{}

	mu      sync.Mutex
	command *exec.Cmd
	killed  bool
}

// start starts a replica, which is killed at the end of the test at the latest.
func (s *stage) start(flags ...string) *replica {
	s.Helper()
	r := &replica{stage: s, ended: make(chan struct{}), flags: append([]string{
		"--extensions", "--kubeconfig=" + s.kubeconfig,
		"--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0",
	}, flags...)}
	s.must(r.run())
	go r.supervise()
	s.Cleanup(r.kill)
	return r
}

func (r *replica) run() error {
	r.command = exec.Command(program, r.flags...)
	r.command.Stdout, r.command.Stderr = &r.log, &r.log
	r.command.SysProcAttr = endWithTest()
	return r.command.Start()
}

func (r *replica) supervise() {
	defer close(r.ended)
	for again := true; again; {
		_ = r.command.Wait()
		again = r.again()
	}
}

// again starts the program again if it lost the lead.
func (r *replica) again() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.killed:
		return false
	case !bytes.HasSuffix(r.log.Bytes(), []byte("leader election lost\n")):
		r.stage.Errorf("the controllers ended by themselves:\n%s", tail(r.log.Bytes()))
		return false
	}
	if err := r.run(); err != nil {
		r.stage.Error(err)
		return false
	}
	return true
}

// kill ends the replica as if its machine had lost power.
func (r *replica) kill() {
	r.stage.Helper()
	r.mu.Lock()
	first := !r.killed
	r.killed = true
	_ = r.command.Process.Kill() // an error says that it ended
	r.mu.Unlock()
	<-r.ended
	if first && r.stage.Failed() {
		r.stage.Logf("the controllers' log:\n%s", tail(r.log.Bytes()))
	}
}

// tail is the end of a log.
func tail(log []byte) []byte {
	const most = 8000
	return log[max(0, len(log)-most):]
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
