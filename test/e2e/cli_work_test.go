// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/cli"
	"github.com/berthdev/berth/internal/install"
	"github.com/berthdev/berth/internal/localcluster"
	"github.com/berthdev/berth/internal/localcluster/clustertest"
)

// person works with the command line on a cluster.
type person struct {
	t       *testing.T
	ctx     context.Context
	cluster *localcluster.Cluster
}

// does runs a command that must succeed, and gives what it wrote to standard output.
func (p person) does(in string, args ...string) string {
	p.t.Helper()
	out, errOut, code := p.tries(in, args...)
	if code != 0 {
		p.t.Fatalf("berth %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errOut)
	}
	return out
}

func (p person) tries(in string, args ...string) (out, errOut string, code int) {
	var o, e bytes.Buffer
	code = cli.Run(p.ctx, append([]string{"berth", "--kubeconfig", p.cluster.Kubeconfig()}, args...),
		genericiooptions.IOStreams{In: strings.NewReader(in), Out: &o, ErrOut: &e})
	return o.String(), e.String(), code
}

// TestWorkInASandboxOnRealPods works in a claimed sandbox with a volume as a person does: files in and out, a
// port, logs, a night in which it is suspended, and what it has lost and kept by the morning.
func TestWorkInASandboxOnRealPods(t *testing.T) {
	log.SetLogger(logr.Discard())
	cluster := clustertest.Node(t)
	ctx, cancel := context.WithTimeout(t.Context(), cliPatience)
	defer cancel()
	config := clustertest.RESTConfig(t, cluster, "cli-test")
	if err := install.Berth(ctx, install.Options{Config: config, Local: cluster}); err != nil {
		t.Fatal(err)
	}
	makeServers(ctx, t, clientFor(t, cluster))
	p := person{t, ctx, cluster}

	if got := p.does("", "claim", "servers", "--rm", "--", "sh", "-c", "echo $((6 * 7))"); got != "42\n" {
		t.Errorf("claim --rm printed %q", got)
	}
	if name := p.does("", "claim", "servers", "--name", "analysis", "--ttl", "1h"); name != "analysis\n" {
		t.Fatalf("claim printed %q", name)
	}
	if got := p.does("", "ls", "-o", "name"); strings.Count(got, "sandboxclaim.") != 1 {
		t.Errorf("there is more than the one claim:\n%s", got)
	}
	p.copies()
	if got := p.does("", "logs", "analysis", "--tail", "1"); got != "started\n" {
		t.Errorf("the log is %q", got)
	}
	if got := p.does("", "events", "analysis"); !strings.Contains(got, "pod/") || !strings.Contains(got, "claim/analysis") {
		t.Errorf("the events are\n%s", got)
	}
	forward := p.forwards()

	p.does("", "exec", "analysis", "--", "touch", "/tmp/lost")
	p.does("", "suspend", "analysis")
	if code := <-forward.ended; code != 1 || !strings.Contains(forward.errOut.String(), "and its ports with it") {
		t.Errorf("port-forward ended with %d when the pod went:\n%s", code, forward.errOut.String())
	}
	if _, errOut, code := p.tries("", "exec", "analysis", "--", "true"); code != 125 || !strings.Contains(errOut, "is suspended and has no pod") {
		t.Errorf("exec in a suspended sandbox: exit code %d\n%s", code, errOut)
	}
	p.does("", "resume", "analysis")
	if got := p.does("", "exec", "analysis", "--", "cat", "/data/in/deep/b"); got != "B" {
		t.Errorf("the volume holds %q", got)
	}
	if _, _, code := p.tries("", "exec", "analysis", "--", "test", "-e", "/tmp/lost"); code != 1 {
		t.Errorf("what was not on the volume is still there: exit code %d", code)
	}
	p.does("", "release", "analysis", "--wait")
}

// makeServers makes a pool "servers" of web servers with a volume.
func makeServers(ctx context.Context, t *testing.T, c client.Client) {
	t.Helper()
	template := &extensions.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "server"}}
	template.Spec.SandboxBlueprint = agents.SandboxBlueprint{
		PodTemplate: agents.PodTemplate{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "server", Image: localcluster.BusyboxImage,
			Command: []string{"sh", "-c", "trap 'exit 0' TERM; mkdir /www; echo hello > /www/index.html; httpd -p 8080 -h /www; echo started; " +
				"while :; do sleep 1 & wait; done"},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}}}},
		VolumeClaimTemplates: []agents.PersistentVolumeClaimTemplate{{
			Metadata: agents.EmbeddedObjectMetadata{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
			},
		}},
	}
	pool := &extensions.SandboxWarmPool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "servers"},
		Spec: extensions.SandboxWarmPoolSpec{Replicas: ptr.To[int32](1), TemplateRef: extensions.SandboxTemplateRef{Name: template.Name}}}
	for _, object := range []client.Object{template, pool} {
		if err := c.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
}

// copies copies files in and out with the sandbox's own tar.
func (p person) copies() {
	p.t.Helper()
	here := p.t.TempDir()
	must := func(err error) {
		p.t.Helper()
		if err != nil {
			p.t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(here, "in", "deep"), 0o755))
	must(os.WriteFile(filepath.Join(here, "in", "a"), bytes.Repeat([]byte("0123456789"), 100000), 0o640))
	must(os.WriteFile(filepath.Join(here, "in", "deep", "b"), []byte("B"), 0o600))
	p.does("", "cp", filepath.Join(here, "in"), "analysis:/data")
	p.does("from a pipe", "cp", "-", "analysis:/data/piped")
	if got := p.does("", "cp", "analysis:/data/piped", "-"); got != "from a pipe" {
		p.t.Errorf("back came %q", got)
	}
	p.does("", "exec", "analysis", "--", "ln", "-s", "/etc/passwd", "/data/in/out")
	out := filepath.Join(here, "out")
	p.does("", "cp", "analysis:/data/in", out)
	if _, err := os.Lstat(filepath.Join(out, "out")); !os.IsNotExist(err) {
		p.t.Errorf("a link that leads out of the copy was made: %v", err)
	}
	for _, name := range []string{"a", "deep/b"} {
		sent, err := os.ReadFile(filepath.Join(here, "in", name))
		must(err)
		back, err := os.ReadFile(filepath.Join(out, name))
		must(err)
		if !bytes.Equal(sent, back) {
			p.t.Errorf("%s came back with %d bytes instead of %d", name, len(back), len(sent))
		}
	}
	_, errOut, code := p.tries("", "cp", "analysis:/nope", here)
	if code != 1 || !strings.Contains(errOut, "/nope") && !strings.Contains(errOut, "nope: ") || !strings.Contains(errOut, "Next:") {
		p.t.Errorf("a copy of nothing ended with %d:\n%s", code, errOut)
	}
}

// forwarding is a port-forward that runs.
type forwarding struct {
	errOut *shared
	ended  chan int
}

// forwards forwards a port and asks the server behind it for a page.
func (p person) forwards() forwarding {
	p.t.Helper()
	f := forwarding{errOut: &shared{}, ended: make(chan int, 1)}
	lines, out := io.Pipe()
	go func() {
		f.ended <- cli.Run(p.ctx, []string{"berth", "--kubeconfig", p.cluster.Kubeconfig(), "port-forward", "analysis", ":8080"},
			genericiooptions.IOStreams{Out: out, ErrOut: f.errOut})
		out.Close()
	}()
	buffer := make([]byte, 1024)
	n, err := lines.Read(buffer)
	if err != nil {
		p.t.Fatalf("port-forward: %v\n%s", err, f.errOut.String())
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	address := regexp.MustCompile(`localhost:\d+`).FindString(string(buffer[:n]))
	for range 2 {
		response, err := http.Get("http://" + address + "/")
		if err != nil {
			p.t.Fatalf("%v\n%s", err, f.errOut.String())
		}
		page, err := io.ReadAll(response.Body)
		if err != nil || string(page) != "hello\n" {
			p.t.Errorf("the server says %q, %v", page, err)
		}
		response.Body.Close()
	}
	return f
}

// shared is a buffer that is read while it is written.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(data)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
