// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// shell is a machine with a few commands.
func shell() commands {
	return commands{
		"echo": func(args []string, _ io.Reader, out, _ io.Writer) int {
			fmt.Fprintln(out, strings.Join(args, " "))
			return 0
		},
		"fail": func(_ []string, _ io.Reader, out, errOut io.Writer) int {
			fmt.Fprintln(out, "some output")
			fmt.Fprintln(errOut, "it went wrong")
			return 42
		},
		"cat": func(_ []string, in io.Reader, out, _ io.Writer) int {
			if _, err := io.Copy(out, in); err != nil {
				return 1
			}
			return 0
		},
	}
}

func TestExecRunsCommandsInTheClaimsPod(t *testing.T) {
	s := newSpace(t)
	node := s.makeNode(shell())
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, node, sandbox, runs())

	for name, c := range map[string]struct {
		in   string
		args []string
		want result
	}{
		"output and success":                   {"", []string{"analysis", "--", "echo", "--flag", "a b"}, result{out: "--flag a b\n"}},
		"a sandbox by its own name":            {"", []string{"sandbox/analysis-box", "--", "echo", "hi"}, result{out: "hi\n"}},
		"a container by name":                  {"", []string{"-c", "side", "analysis", "--", "echo", "hi"}, result{out: "hi\n"}},
		"both outputs and the exit code":       {"", []string{"analysis", "--", "fail"}, result{out: "some output\n", err: "it went wrong\n", code: 42}},
		"standard input that is no terminal":   {"from a pipe", []string{"analysis", "--", "cat"}, result{out: "from a pipe"}},
		"standard input where it is not asked": {"from a pipe", []string{"--stdin=false", "analysis", "--", "cat"}, result{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.start(s.ctx, strings.NewReader(c.in), append([]string{"exec"}, c.args...)...).wait()
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	s.run("exec", "analysis", "--", "nope").expect(t, 127, `container work of pod analysis-box has no command "nope"`, "install it")
}

func TestInterruptedExecSaysThatTheCommandMayStillRun(t *testing.T) {
	s := newSpace(t)
	node := s.makeNode(commands{"wait": func(_ []string, in io.Reader, out, _ io.Writer) int {
		fmt.Fprintln(out, "started")
		_, _ = io.Copy(io.Discard, in)
		return 0
	}})
	_, sandbox := s.makeClaim("analysis")
	s.makePod(sandbox.Name, node, sandbox, runs())
	ctx, interrupt := context.WithCancel(s.ctx)
	in, hold := io.Pipe()
	defer hold.Close()
	command := s.start(ctx, in, "exec", "analysis", "--", "wait")
	command.out.await(s, "started")
	interrupt()
	command.wait().expect(t, 130, "wait may still run in pod analysis-box")
}

func TestExecTakesOnlyPodsThatTheSandboxControls(t *testing.T) {
	s := newSpace(t)
	node := s.makeNode(shell())
	_, sandbox := s.makeClaim("analysis")
	s.makePod("decoy", node, nil, runs())
	before := sandbox.DeepCopy()
	sandbox.Annotations = map[string]string{agents.AnnotationPodName: "decoy"}
	s.must(s.Patch(s.ctx, sandbox, client.MergeFrom(before)))

	s.run("exec", "analysis", "--", "echo").expect(t, 125, "sandbox analysis-box has no pod: the pod decoy is not one of its own")
	s.makePod(sandbox.Name, node, sandbox, runs())
	if got := s.run("exec", "analysis", "--", "echo", "mine"); got.out != "mine\n" {
		t.Errorf("with a forged annotation: %+v", got)
	}
}

func TestExecSaysWhyItCannot(t *testing.T) {
	s := newSpace(t)
	node := s.makeNode(shell())
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	for name, c := range map[string]struct {
		prepare func(s *space, name string)
		args    []string // after the claim's name; the default is a command
		want    []string
	}{
		"no such claim": {func(*space, string) {}, nil, []string{"there is no claim", "berth ls -A"}},
		"a claim without a sandbox": {func(s *space, name string) {
			claim := &extensions.SandboxClaim{ObjectMeta: s.meta(name), Spec: extensions.SandboxClaimSpec{WarmPoolRef: &extensions.SandboxWarmPoolRef{Name: "python"}}}
			s.must(s.Create(s.ctx, claim))
			s.says(claim, extensions.ClaimedSandbox{}, notReady("TemplateNotFound", `SandboxTemplate "t" not found`))
		}, nil, []string{`has no sandbox yet: TemplateNotFound: SandboxTemplate "t" not found`, "create the SandboxTemplate"}},
		"a sandbox that is gone": {func(s *space, name string) {
			claim, sandbox := s.makeClaim(name)
			s.must(s.Delete(s.ctx, sandbox))
			s.says(claim, claim.Status.Sandbox, notReady("SandboxMissing", "Sandbox does not exist"))
		}, nil, []string{"is gone (SandboxMissing: Sandbox does not exist)", "gets another sandbox"}},
		"another sandbox of the same name": {func(s *space, name string) {
			claim, _ := s.makeClaim(name)
			s.says(claim, extensions.ClaimedSandbox{Name: name + "-box", UID: "an-earlier-one"}, ready())
		}, nil, []string{"is gone"}},
		"a sandbox that another claim controls": {func(s *space, name string) {
			claim, _ := s.makeClaim(name)
			_, other := s.makeClaim(name + "-other")
			s.says(claim, extensions.ClaimedSandbox{Name: other.Name, UID: other.UID}, ready())
		}, nil, []string{"is not controlled by claim"}},
		"a suspended sandbox": {func(s *space, name string) {
			_, sandbox := s.makeClaim(name)
			before := sandbox.DeepCopy()
			sandbox.Spec.OperatingMode = agents.OperatingModeSuspended
			s.must(s.Patch(s.ctx, sandbox, client.MergeFrom(before)))
		}, nil, []string{"is suspended and has no pod", "a-suspended-sandbox starts it again"}},
		"two pods": {func(s *space, name string) {
			_, sandbox := s.makeClaim(name)
			before := sandbox.DeepCopy()
			sandbox.Status.Conditions = []metav1.Condition{notReady(agents.ReasonMultiplePods, "multiple Pods (2)")}
			s.must(s.Status().Patch(s.ctx, sandbox, client.MergeFrom(before)))
			s.makePod(sandbox.Name, node, sandbox, runs())
		}, nil, []string{"which pod is sandbox", "multiple Pods (2)"}},
		"a pod that is not there": {func(s *space, name string) {
			_, sandbox := s.makeClaim(name)
			before := sandbox.DeepCopy()
			sandbox.Status.Conditions = []metav1.Condition{notReady("ReconcilerError", "Error seen: quota")}
			s.must(s.Status().Patch(s.ctx, sandbox, client.MergeFrom(before)))
		}, nil, []string{"has no pod (ReconcilerError: Error seen: quota)"}},
		"an image that cannot be had": {func(s *space, name string) {
			_, sandbox := s.makeClaim(name)
			s.makePod(sandbox.Name, node, sandbox, waiting("ImagePullBackOff", "no such image"))
		}, nil, []string{"container work of pod", "does not run: ImagePullBackOff: no such image", "kubectl describe pod"}},
		"a container that ended": {func(s *space, name string) {
			_, sandbox := s.makeClaim(name)
			s.makePod(sandbox.Name, node, sandbox, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}})
		}, nil, []string{"it ended with exit code 137 (OOMKilled)"}},
		"a container that does not exist": {func(s *space, name string) {
			_, sandbox := s.makeClaim(name)
			s.makePod(sandbox.Name, node, sandbox, runs())
		}, []string{"-c", "other", "--", "echo"}, []string{`has no container "other"`, "work, side"}},
		"no command":    {func(*space, string) {}, []string{}, []string{"exec needs a command", "-- sh opens a shell"}},
		"no dashes":     {func(*space, string) {}, []string{"echo", "hi"}, []string{"needs -- between the claim and the command", "-- echo hi"}},
		"flags without": {func(*space, string) {}, []string{"echo", "-x"}, []string{"unknown shorthand flag", "CLAIM -- COMMAND"}},
	} {
		t.Run(name, func(t *testing.T) {
			claim := strings.ReplaceAll(name, " ", "-")
			s := s.in(t)
			c.prepare(s, claim)
			if c.args == nil {
				c.args = []string{"--", "echo"}
			}
			s.run(append([]string{"exec", claim}, c.args...)...).expect(t, 125, c.want...)
		})
	}
}
