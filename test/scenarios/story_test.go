// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentruntimes "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// story is one scenario as it is told. Its checks are printed as they are made.
type story struct {
	*testing.T
	*stage
	ctx       context.Context
	namespace string
	seen      *witness
	out       io.Writer
	loggedTo  int // how far the controller's log was when the scenario began
}

// newStory begins a scenario in a namespace that nothing of another scenario is in any
// more.
func newStory(t *testing.T, s *stage, namespace, title string) *story {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	y := &story{T: t, stage: s, ctx: ctx, namespace: namespace, out: t.Output(), loggedTo: s.controller.log.length()}
	fmt.Fprintf(y.out, "\n%s\n%s\n", title, strings.Repeat("=", len(title)))
	y.seen = watchNamespace(y)
	y.until("what another scenario left is gone", func() bool { return len(y.now().pods)+len(y.now().sandboxes)+len(y.now().runtimes) == 0 })
	t.Cleanup(y.end)
	return y
}

// end checks what holds in every scenario, and gives everything back.
func (s *story) end() {
	s.Helper()
	s.proxy.ReleaseWatches()
	for _, violation := range s.seen.found() {
		s.verdict(false, "%s", violation)
	}
	if s.Failed() {
		s.tell("The end of the controller's log:\n%s", s.controller.log.tail())
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.deleteAll(ctx, &corev1.ConfigMap{}, client.HasLabels{agentruntimes.LabelDefaults})
	for _, kind := range []client.Object{
		&agentruntimes.AgentRuntime{}, &extensions.SandboxClaim{}, &extensions.SandboxWarmPool{}, &extensions.SandboxTemplate{}, &agents.Sandbox{},
	} {
		s.deleteAll(ctx, kind)
	}
}

func (s *story) deleteAll(ctx context.Context, kind client.Object, which ...client.DeleteAllOfOption) {
	s.Helper()
	if err := s.client.DeleteAllOf(ctx, kind, append(which, client.InNamespace(s.namespace))...); err != nil {
		s.Error(err)
	}
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// tell says what happens.
func (s *story) tell(format string, args ...any) {
	fmt.Fprintf(s.out, "\n%s\n", fmt.Sprintf(format, args...))
}

// elsewhere says what would have gone wrong.
func (s *story) elsewhere(format string, args ...any) {
	fmt.Fprintf(s.out, "  Elsewhere: %s\n", fmt.Sprintf(format, args...))
}

// verdict says whether something is as it should be; if it is not, the test fails.
func (s *story) verdict(is bool, format string, args ...any) {
	mark := "✓"
	if !is {
		mark = "✗ NOT SO:"
		s.Fail()
	}
	fmt.Fprintf(s.out, "  %s %s\n", mark, fmt.Sprintf(format, args...))
}

// run runs a command as a person types it, shows it with its output, and returns the
// output. A command that fails ends the scenario.
func (s *story) run(command string) string {
	s.Helper()
	s.show("$ " + command)
	line := exec.CommandContext(s.ctx, "bash", "-euo", "pipefail", "-c", command)
	line.Dir = s.repository
	line.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig(),
		"PATH="+filepath.Dir(s.cluster.Kubectl())+string(os.PathListSeparator)+os.Getenv("PATH"))
	said, err := line.CombinedOutput()
	s.show(string(said))
	if err != nil {
		s.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(string(said))
}

// show prints lines of a terminal.
func (s *story) show(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if line = strings.TrimRight(line, "\n"); line != "" {
			fmt.Fprintf(s.out, "    %s\n", line)
		}
	}
}

// quietly checks that the controller logged no error since the scenario began.
func (s *story) quietly() {
	s.Helper()
	errors := s.controller.log.errorsSince(s.loggedTo)
	s.verdict(len(errors) == 0, "the controller has logged no error")
	for _, line := range errors {
		s.show(line)
	}
}

// now is what there is in the namespace.
func (s *story) now() scene {
	now, _ := s.seen.scene()
	return now
}

// refusedOnly checks that the controller logged no error since the scenario began but of
// writes that the server refused because they rested on an old version: a controller that lags while others write
// has to get those.
func (s *story) refusedOnly() {
	s.Helper()
	var others []string
	errors := s.controller.log.errorsSince(s.loggedTo)
	for _, line := range errors {
		if !strings.Contains(line, "the object has been modified") {
			others = append(others, line)
		}
	}
	s.verdict(len(others) == 0, "the controller has logged no error, but for %d writes that the server refused because they rested on what the controller saw last", len(errors))
	for _, line := range others {
		s.show(line)
	}
}

// until waits until something is so, judging anew with every change in the namespace.
func (s *story) until(what string, is func() bool) {
	s.Helper()
	if err := s.seen.until(s.ctx, is); err != nil {
		s.tell("In the namespace at the end:\n%s", s.now())
		s.Fatalf("it never came about that %s: %v", what, err)
	}
}

// makeNamespace makes the scenario's namespace, for those that apply no manifest of it.
func (s *story) makeNamespace() {
	s.Helper()
	err := s.client.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.must(client.IgnoreAlreadyExists(err))
}

// idle is a container that does nothing and ends when it is told to.
func idle() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "agent", Image: "docker.io/library/busybox:1.36",
		Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"},
	}}}
}

// sandbox makes a Sandbox with annotations in its pod template, and waits until it is Ready.
func (s *story) sandbox(name string, annotations map[string]string) *corev1.Pod {
	s.Helper()
	return s.sandboxOf(name, idle(), annotations)
}

// sandboxOf is sandbox with another pod.
func (s *story) sandboxOf(name string, pod corev1.PodSpec, annotations map[string]string) *corev1.Pod {
	s.Helper()
	s.makeNamespace()
	sandbox := &agents.Sandbox{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	sandbox.Spec.PodTemplate = agents.PodTemplate{Spec: pod, Metadata: agents.PodMetadata{Annotations: annotations}}
	s.must(s.client.Create(s.ctx, sandbox))
	return s.readyPod(name, nil)
}

// readyPod waits until a Sandbox is Ready with a pod other than former, and returns that.
func (s *story) readyPod(name string, former *corev1.Pod) *corev1.Pod {
	s.Helper()
	var pod *corev1.Pod
	s.until("Sandbox "+name+" is Ready with a new pod", func() bool {
		pod = s.now().pods[name]
		return pod != nil && (former == nil || pod.UID != former.UID) && pod.DeletionTimestamp == nil &&
			isReady(pod) && s.now().isTrue(name, agents.ConditionReady)
	})
	return pod
}

// podGone waits until a pod does not exist any more.
func (s *story) podGone(pod *corev1.Pod) {
	s.Helper()
	s.until("pod "+pod.Name+" is gone", func() bool {
		now := s.now().pods[pod.Name]
		return now == nil || now.UID != pod.UID
	})
}

// fullPool waits until all members of a pool are ready and of the current template.
func (s *story) fullPool(name string) {
	s.Helper()
	s.until("pool "+name+" is full", func() bool {
		pool := s.now().pools[name]
		return pool != nil && pool.Status.ObservedGeneration == pool.Generation && pool.Spec.Replicas != nil &&
			pool.Status.ReadyReplicas == *pool.Spec.Replicas && pool.Status.UpdatedReplicas == *pool.Spec.Replicas
	})
}
