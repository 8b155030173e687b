// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/faultproxy"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/manager/managertest"
)

const (
	// patience ends a scenario that hangs. Machines that run tests may be very busy.
	patience = 10 * time.Minute
	// stopPatience is for the controller to end when it is asked to.
	stopPatience = time.Minute
)

// stage is what all scenarios share: a node with real pods, and the controller's program,
// which reaches the API server through a proxy that can make it lag.
type stage struct {
	cluster    *localcluster.Cluster
	client     client.WithWatch
	repository string
	proxy      *faultproxy.Proxy
	controller *controller
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{cluster: clustertest.Node(t, clustertest.WithAudit())}
	managertest.Install(t, s.cluster)
	config := clustertest.RESTConfig(t, s.cluster, "scenarios")
	var err error
	if s.client, err = client.NewWithWatch(config, client.Options{Scheme: manager.Scheme()}); err != nil {
		t.Fatal(err)
	}
	if s.repository, err = localcluster.Repository(); err != nil {
		t.Fatal(err)
	}
	if s.proxy, err = faultproxy.Start(clustertest.RESTConfig(t, s.cluster, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.proxy.Close)
	s.controller = newController(t, s)
	s.controller.start(t)
	t.Cleanup(func() { s.controller.stop(t) })
	return s
}

// controller is the controllers' program as people install it.
type controller struct {
	program    string
	kubeconfig string
	command    *exec.Cmd
	ended      chan struct{}
	log        logged
}

func newController(t *testing.T, s *stage) *controller {
	t.Helper()
	dir := t.TempDir()
	c := &controller{program: filepath.Join(dir, "berth-controller"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", c.program, "./cmd/berth-controller")
	build.Dir = s.repository
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the controller: %v\n%s", err, said)
	}
	// It has the rights that the manifests give it and no others.
	err := s.proxy.WriteKubeconfig(c.kubeconfig, rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":" + deploy.ControllerName,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *controller) start(t *testing.T, flags ...string) {
	t.Helper()
	c.command = exec.Command(c.program, append([]string{
		"--extensions", "--enable-agent-runtime=auto", "--leader-elect=false", "--kubeconfig=" + c.kubeconfig,
		"--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0",
	}, flags...)...)
	c.command.Stdout, c.command.Stderr = &c.log, &c.log
	c.command.SysProcAttr = endWithTest()
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	ended, command := make(chan struct{}), c.command
	c.ended = ended
	go func() {
		defer close(ended)
		_ = command.Wait() // how it ended is looked at by nobody
	}()
}

// stop ends the program as a node does that stops its pod. A program that ended by itself
// fails the test.
func (c *controller) stop(t *testing.T) {
	t.Helper()
	select {
	case <-c.ended:
		t.Errorf("the controller ended by itself:\n%s", c.log.tail())
		return
	default:
	}
	_ = c.command.Process.Signal(syscall.SIGTERM) // an error says that it ended
	timeout := time.NewTimer(stopPatience)
	defer timeout.Stop()
	select {
	case <-c.ended:
	case <-timeout.C:
		_ = c.command.Process.Kill()
		<-c.ended
		t.Error("the controller does not end when it is asked to")
	}
}

// restart starts the program anew, which then knows nothing.
func (c *controller) restart(t *testing.T, flags ...string) {
	t.Helper()
	c.stop(t)
	c.start(t, flags...)
}

// logged is what a program says.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Len()
}

// errorsSince are the errors that were logged from a length on. What a program logs of work
// that it breaks off because it is asked to end is none.
func (l *logged) errorsSince(length int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range bytes.Lines(l.text.Bytes()[length:]) {
		if bytes.Contains(line, []byte(`"level":"error"`)) && !bytes.Contains(line, []byte("context canceled")) {
			found = append(found, string(bytes.TrimSpace(line)))
		}
	}
	return found
}

// count is how many lines since a length say something.
func (l *logged) count(length int, text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes()[length:], []byte(text))
}

func (l *logged) tail() string {
	const most = 6000
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.Bytes()
	return string(text[max(0, len(text)-most):])
}

// requests are those that the controller has made since a mark, and the next mark.
func (s *stage) requests(ctx context.Context, t *testing.T, mark int64) ([]localcluster.Request, int64) {
	t.Helper()
	all, next, err := s.cluster.Requests(ctx, mark)
	if err != nil {
		t.Fatal(err)
	}
	var own []localcluster.Request
	for _, request := range all {
		if strings.HasPrefix(request.UserAgent, "berth-controller/") {
			own = append(own, request)
		}
	}
	return own, next
}
