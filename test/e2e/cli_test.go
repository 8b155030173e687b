// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// cliPatience ends the test when it hangs; a node that starts takes the largest share.
const cliPatience = 10 * time.Minute

// TestCommandLineOnRealPods runs commands in a real pod. It makes the pod itself, so that it shows the
// command line and nothing else.
func TestCommandLineOnRealPods(t *testing.T) {
	log.SetLogger(logr.Discard())
	cluster := clustertest.Node(t)
	ctx, cancel := context.WithTimeout(t.Context(), cliPatience)
	defer cancel()
	pod := claimedPod(ctx, t, cluster)

	type result struct {
		out, err string
		code     int
	}
	berth := func(in io.Reader, args ...string) result {
		var out, errOut bytes.Buffer
		code := cli.Run(ctx, append([]string{"berth", "--kubeconfig", cluster.Kubeconfig()}, args...),
			genericiooptions.IOStreams{In: in, Out: &out, ErrOut: &errOut})
		return result{out.String(), errOut.String(), code}
	}
	binary := string([]byte{0, 1, 0xff, '\n', 0xfe})
	for name, c := range map[string]struct {
		in   string
		args []string
		want result
	}{
		"a command runs inside the pod":            {"", []string{"exec", "analysis", "--", "hostname"}, result{out: pod.Name + "\n"}},
		"both outputs and the exit code come back": {"", []string{"exec", "analysis", "--", "sh", "-c", "echo out; echo err >&2; exit 7"}, result{out: "out\n", err: "err\n", code: 7}},
		"standard input arrives byte by byte":      {binary, []string{"exec", "sandbox/" + pod.Name, "--", "cat"}, result{out: binary}},
		"a lot of output arrives":                  {"", []string{"exec", "analysis", "--", "sh", "-c", "yes | head -c 1000000"}, result{out: strings.Repeat("y\n", 500000)}},
		"a signal has the shell's exit code":       {"", []string{"exec", "analysis", "--", "sh", "-c", "kill -9 $$"}, result{code: 137}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := berth(strings.NewReader(c.in), c.args...); got != c.want {
				t.Errorf("got exit code %d, %d bytes of output, standard error %q", got.code, len(got.out), got.err)
			}
		})
	}
	for name, c := range map[string]struct {
		command string
		code    int
		says    string
	}{
		"a command that is not there":         {"nope", 127, `has no command "nope"`},
		"a path that is not there":            {"/no/such", 127, `has no command "/no/such"`},
		"a file that is not executable":       {"/etc/hostname", 126, `"/etc/hostname" in container`},
		"a directory is no executable either": {"/etc", 126, `"/etc" in container`},
	} {
		t.Run(name, func(t *testing.T) {
			got := berth(strings.NewReader(""), "exec", "analysis", "--", c.command)
			if got.code != c.code || !strings.Contains(got.err, c.says) {
				t.Errorf("got exit code %d, standard error %q", got.code, got.err)
			}
		})
	}
	t.Run("release waits until the pod is gone", func(t *testing.T) {
		// The garbage collector has not noticed the new kinds before it is started again.
		if err := cluster.Part(localcluster.ControllerManager).Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if got := berth(nil, "release", "analysis", "--wait"); got.code != 0 || got.out != "claim analysis released, its sandbox is gone\n" {
			t.Fatalf("got %+v", got)
		}
		c := clientFor(t, cluster)
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); !apierrors.IsNotFound(err) {
			t.Errorf("the pod is still there: %v", err)
		}
	})
}

func clientFor(t *testing.T, cluster *localcluster.Cluster) client.WithWatch {
	t.Helper()
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, agents.AddToScheme, extensions.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.NewWithWatch(clustertest.RESTConfig(t, cluster, "cli-test"), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// claimedPod makes a claim "analysis" with a sandbox and its running pod, as the controllers would.
func claimedPod(ctx context.Context, t *testing.T, cluster *localcluster.Cluster) *corev1.Pod {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(deploy.Install(ctx, clustertest.RESTConfig(t, cluster, "cli-test")))
	c := clientFor(t, cluster)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	claim := &extensions.SandboxClaim{ObjectMeta: named("analysis"),
		Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: "busybox"}}}
	must(c.Create(ctx, claim))

	no, grace := false, int64(0)
	spec := corev1.PodSpec{AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
		Name: "work", Image: "docker.io/library/busybox:1.36", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "3600"}}}}
	sandbox := &agents.Sandbox{ObjectMeta: named("busybox-a1b2c"), Spec: agents.SandboxSpec{SandboxBlueprint: agents.SandboxBlueprint{PodTemplate: agents.PodTemplate{Spec: spec}}}}
	sandbox.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(claim, extensions.GroupVersion.WithKind(extensions.SandboxClaimKind))}
	must(c.Create(ctx, sandbox))
	pod := &corev1.Pod{ObjectMeta: named(sandbox.Name), Spec: spec}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sandbox, agents.GroupVersion.WithKind(agents.SandboxKind))}
	must(c.Create(ctx, pod))

	before := claim.DeepCopy()
	claim.Status.Sandbox = extensions.ClaimedSandbox{Name: sandbox.Name, UID: sandbox.UID}
	must(c.Status().Patch(ctx, claim, client.MergeFrom(before)))

	events, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(pod.Namespace), client.MatchingFields{"metadata.name": pod.Name})
	must(err)
	defer events.Stop()
	for event := range events.ResultChan() {
		if seen, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted && seen.Status.Phase == corev1.PodRunning {
			return pod
		}
	}
	t.Fatalf("the pod did not run: %v", ctx.Err())
	return nil
}
