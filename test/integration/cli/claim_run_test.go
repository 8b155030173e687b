// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// isGone fails the test unless the claim is gone.
func (s *space) isGone(claim *extensions.SandboxClaim) {
	s.t.Helper()
	if err := s.Get(s.ctx, client.ObjectKeyFromObject(claim), &extensions.SandboxClaim{}); !apierrors.IsNotFound(err) {
		s.t.Errorf("claim %s is still there: %v", claim.Name, err)
	}
}

// fulfil plays the controller for the next claim: it gets a Sandbox with a running pod on a node.
func (s *space) fulfil(node string) *extensions.SandboxClaim {
	s.t.Helper()
	claim := s.nextClaim()
	sandbox := s.sandboxFor(claim)
	s.makePod(sandbox.Name, node, sandbox, runs()) // before the claim is Ready, and the command looks for it
	s.says(claim, extensions.ClaimedSandbox{Name: sandbox.Name, UID: sandbox.UID}, ready())
	return claim
}

func TestClaimForOneCommandLeavesNothingBehind(t *testing.T) {
	for name, c := range map[string]struct {
		command []string
		want    result // standard error is compared as a part
	}{
		"the output is the command's": {[]string{"echo", "--rm", "hi"}, result{out: "--rm hi\n"}},
		"so is the exit code":         {[]string{"fail"}, result{out: "some output\n", err: "it went wrong\n", code: 42}},
		"there is no such command":    {[]string{"nope"}, result{err: `has no command "nope"`, code: 127}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t)
			node := s.makeNode(shell())
			command := s.start(s.ctx, strings.NewReader(""), append([]string{"claim", "python", "--rm", "--"}, c.command...)...)
			claim := s.fulfil(node)
			got := command.wait()
			if got.out != c.want.out || got.code != c.want.code || !strings.Contains(got.err, c.want.err) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			s.isGone(claim)
		})
	}
}

func TestClaimForOneCommandIsReleasedOnCtrlC(t *testing.T) {
	t.Run("while it waits", func(t *testing.T) {
		s := newSpace(t)
		ctx, interrupt := context.WithCancel(s.ctx)
		command := s.start(ctx, nil, "claim", "python", "--rm", "--", "echo")
		claim := s.nextClaim()
		command.err.await(s, "Created claim")
		interrupt()
		command.wait().expect(t, 130, "Interrupted; releasing claim "+claim.Name)
		s.isGone(claim)
	})
	t.Run("while the command runs", func(t *testing.T) {
		s := newSpace(t)
		node := s.makeNode(commands{"wait": func(_ []string, in io.Reader, out, _ io.Writer) int {
			fmt.Fprintln(out, "started")
			_, _ = io.Copy(io.Discard, in)
			return 0
		}})
		in, hold := io.Pipe()
		defer hold.Close()
		ctx, interrupt := context.WithCancel(s.ctx)
		command := s.start(ctx, in, "claim", "python", "--rm", "--", "wait")
		claim := s.fulfil(node)
		command.out.await(s, "started")
		interrupt()
		command.wait().expect(t, 130, "Interrupted; releasing claim "+claim.Name)
		s.isGone(claim)
	})
}

func TestClaimForOneCommandIsReleasedWhenItIsNotReady(t *testing.T) {
	t.Run("in time", func(t *testing.T) {
		s := newSpace(t)
		command := s.start(s.ctx, nil, "claim", "python", "--rm", "--timeout", "50ms", "--", "echo")
		got := command.wait()
		got.expect(t, 125, "is not Ready after 50ms", "the claim is released", "see that the controller runs")
		if strings.Contains(got.err, "gives it up") {
			t.Errorf("a claim that is gone cannot be given up:\n%s", got.err)
		}
		var left extensions.SandboxClaimList
		s.must(s.List(s.ctx, &left, client.InNamespace(s.name)))
		if len(left.Items) > 0 {
			t.Errorf("claim %s is left", left.Items[0].Name)
		}
	})
	t.Run("ever", func(t *testing.T) {
		s := newSpace(t)
		command := s.start(s.ctx, nil, "claim", "python", "--rm", "--", "echo")
		claim := s.nextClaim()
		s.says(claim, extensions.ClaimedSandbox{}, notReady(extensions.ReasonTemplateNotFound, "no template"))
		command.wait().expect(t, 125, "gets no sandbox: TemplateNotFound: no template; the claim is released", "Next: create the SandboxTemplate")
		s.isGone(claim)
	})
}

func TestDetachedClaimDoesNotWait(t *testing.T) {
	s := newSpace(t)
	got := s.run("claim", "python", "--detach", "--name", "analysis", "--ttl", "8h", "--label", "team=blue", "--env", "A=a")
	got.expect(t, 0, "may still wait")
	if got.out != "analysis\n" {
		t.Errorf("standard output is %q", got.out)
	}
	claim := &extensions.SandboxClaim{}
	s.must(s.Get(s.ctx, client.ObjectKey{Namespace: s.name, Name: "analysis"}, claim))
	if claim.Spec.Lifecycle == nil || claim.Labels["team"] != "blue" || len(claim.Spec.Env) != 1 {
		t.Errorf("the claim is %+v", claim)
	}
	s.run("ls", "-l", "team=blue", "-o", "name").expect(t, 0)
	if got := s.run("ls", "-l", "team=red", "-o", "name").out; got != "" {
		t.Errorf("of another team there is %q", got)
	}
	s.run("ls", "-l", "a b").expect(t, 1, `--selector "a b"`, "Next: write it as KEY=VALUE")
}
