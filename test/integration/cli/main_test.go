// SPDX-License-Identifier: Apache-2.0

// Package cli tests the command line against a real API server. The tests play the controller, and a
// kubelet.
package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/cli"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

// patience ends a test that hangs; nothing is expected to take a share of it that matters.
const patience = 5 * time.Minute

var (
	cluster *localcluster.Cluster
	connect = sync.OnceValues(func() (client.WithWatch, error) {
		config, err := cluster.RESTConfig()
		if err != nil {
			return nil, err
		}
		if err := deploy.Install(context.Background(), config); err != nil {
			return nil, err
		}
		all := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, agents.AddToScheme, extensions.AddToScheme} {
			if err := add(all); err != nil {
				return nil, err
			}
		}
		return client.NewWithWatch(config, client.Options{Scheme: all})
	})
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(clustertest.Main(m, &cluster))
}

// space is a namespace of the API server, for one test.
type space struct {
	client.WithWatch
	t    *testing.T
	ctx  context.Context
	name string
}

func newSpace(t *testing.T) *space {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cli-"}}
	if err := c.Create(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	return &space{WithWatch: c, t: t, ctx: ctx, name: namespace.Name}
}

// in is the same namespace for a subtest.
func (s *space) in(t *testing.T) *space {
	sub := *s
	sub.t = t
	return &sub
}

// must fails the test on errors of its own making.
func (s *space) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *space) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.name, Name: name}
}

// result is how a command ended.
type result struct {
	out, err string
	code     int
}

// run runs one command in the space's namespace and waits for its end.
func (s *space) run(args ...string) result {
	s.t.Helper()
	return s.start(s.ctx, strings.NewReader(""), args...).wait()
}

// running is a command that runs. Its output may be looked at meanwhile.
type running struct {
	out, err *output
	ended    chan int
}

// start starts a command in the space's namespace. It is interrupted when ctx ends.
func (s *space) start(ctx context.Context, in io.Reader, args ...string) *running {
	r := &running{out: newOutput(), err: newOutput(), ended: make(chan int, 1)}
	line := append([]string{"berth", "--kubeconfig", cluster.Kubeconfig(), "--namespace", s.name}, args...)
	go func() {
		r.ended <- cli.Run(ctx, line, genericiooptions.IOStreams{In: in, Out: r.out, ErrOut: r.err})
	}()
	return r
}

func (r *running) wait() result {
	code := <-r.ended
	return result{out: r.out.String(), err: r.err.String(), code: code}
}

// output collects what a command writes, and tells when something is in it.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await returns when the output contains text.
func (o *output) await(s *space, text string) {
	s.t.Helper()
	for {
		o.mu.Lock()
		have, changed := o.text.String(), o.changed
		o.mu.Unlock()
		if strings.Contains(have, text) {
			return
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			s.t.Fatalf("the command has not written %q, but\n%s", text, have)
		}
	}
}

// nextClaim returns the claim that is made in the namespace.
func (s *space) nextClaim() *extensions.SandboxClaim {
	s.t.Helper()
	events, err := s.Watch(s.ctx, &extensions.SandboxClaimList{}, client.InNamespace(s.name))
	s.must(err)
	defer events.Stop()
	for event := range events.ResultChan() {
		if event.Type == watch.Added {
			return event.Object.(*extensions.SandboxClaim)
		}
	}
	s.t.Fatal("no claim was made")
	return nil
}

// says writes a claim's status, as a controller does.
func (s *space) says(claim *extensions.SandboxClaim, sandbox extensions.ClaimedSandbox, conditions ...metav1.Condition) {
	s.t.Helper()
	before := claim.DeepCopy()
	claim.Status = extensions.SandboxClaimStatus{Sandbox: sandbox, Conditions: conditions}
	s.must(s.Status().Patch(s.ctx, claim, client.MergeFrom(before)))
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

func ready() metav1.Condition {
	return condition(agents.ConditionReady, metav1.ConditionTrue, agents.ReasonDependenciesReady, agents.MessagePodReady)
}

func notReady(reason, message string) metav1.Condition {
	return condition(agents.ConditionReady, metav1.ConditionFalse, reason, message)
}

// expect checks the exit code and that each text is in what was written to standard error.
func (r result) expect(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	for _, text := range texts {
		if !strings.Contains(r.err, text) {
			t.Errorf("standard error does not say %q", text)
		}
	}
	if t.Failed() {
		t.Logf("standard output:\n%s\nstandard error:\n%s", r.out, r.err)
	}
}
