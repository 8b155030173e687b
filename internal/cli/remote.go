// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
)

// remote is a running container in which this program runs commands of its own.
type remote struct {
	config    *rest.Config
	pod       *corev1.Pod
	container string
}

// remoteOf finds the container of a target. wanted is its name, or "" for the default one.
func (p *program) remoteOf(ctx context.Context, c *cluster, t target, wanted string) (*remote, error) {
	pod, err := p.podOf(ctx, c, t)
	if err != nil {
		return nil, err
	}
	container, err := p.containerOf(pod, wanted)
	if err != nil {
		return nil, err
	}
	return &remote{config: c.config, pod: pod, container: container}, nil
}

// complaintLimit is how much of a command's standard error is kept, in bytes: more helps nobody.
const complaintLimit = 4096

// failure is a command that ran and said that it failed.
type failure struct {
	code     int
	complain string // the end of what it wrote to standard error
}

func (f *failure) Error() string {
	if f.complain == "" {
		return "it ended without saying why"
	}
	return f.complain
}

// errNoCommand means that the container has no program of the name.
var errNoCommand = errors.New("no such command")

// run runs a command. It fails with errNoCommand, a *failure, or what went wrong on the way. in and out
// may be nil.
func (r *remote) run(ctx context.Context, in io.Reader, out io.Writer, command ...string) error {
	complaint := &tail{}
	executor, err := newExecutor(r.config, r.pod, execOptions{command: command, container: r.container, stdin: in != nil})
	if err != nil {
		return err
	}
	if out == nil {
		out = io.Discard
	}
	ctx = klog.NewContext(ctx, logr.Discard()) // how an interrupted command's streams end is no news
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: complaint})
	var ended utilexec.CodeExitError
	switch {
	case errors.As(err, &ended) && ended.ExitStatus() == exitNotFound:
		return errNoCommand
	case errors.As(err, &ended):
		return &failure{code: ended.ExitStatus(), complain: strings.TrimSpace(complaint.text.String())}
	case err != nil && noSuchCommand(err):
		return errNoCommand
	}
	return err
}

// noSuchCommand reads the words in which a node's container runtime says that it could not start a command.
func noSuchCommand(err error) bool {
	text := err.Error()
	return strings.Contains(text, "executable file not found") || strings.Contains(text, "no such file or directory")
}

// tail keeps the last lines that are written to it.
type tail struct{ text bytes.Buffer }

func (t *tail) Write(data []byte) (int, error) {
	t.text.Write(data)
	if extra := t.text.Len() - complaintLimit; extra > 0 {
		t.text.Next(extra)
	}
	return len(data), nil
}
