// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

type execOptions struct {
	target    target
	command   []string
	container string
	stdin     bool
	tty       bool
}

func (p *program) execCommand() *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec CLAIM [flags] -- COMMAND [ARG...]",
		Short: "Run a command in a claimed sandbox",
		Long: "Runs a command in the sandbox of a claim, or in one that is named as sandbox/NAME, and ends\n" +
			"with the command's exit code.\n\n" +
			"Standard input is passed on when it is not a terminal; in a script's loop that reads standard\n" +
			"input itself, say --stdin=false, or the first command takes all of it. When standard input and\n" +
			"output are terminals, the command gets one, too.\n\n" +
			"The pod is one that the sandbox controls by its UID, and the sandbox one that the claim controls: a\n" +
			"name, label or annotation is no proof. With more than one pod, none is chosen.\n\n" +
			"These exit codes are not the command's own:\n" +
			"  125  berth failed, and says why; the command's exit code is not known\n" +
			"  126  the command is not executable\n" +
			"  127  there is no such command in the container\n" +
			"  130  Ctrl-C; the command may still run, and berth says so\n" +
			"Where a signal ended the command, it is 128 and the signal's number.",
		Example: p.examples(`
			# a command and its output
			berth exec analysis -- python3 -c 'print(6 * 7)'

			# a shell
			berth exec analysis -- sh

			# a program from this machine
			berth exec analysis -- python3 - < analyse.py`),
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: p.completeTargets,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			o.target, o.command, err = p.splitExec(cmd, args)
			if err != nil {
				return p.notRun(err)
			}
			p.attach(cmd, &o)
			return p.notRun(p.exec(cmd.Context(), o))
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if bad, known := flagProblem(err); known {
			return p.notRun(bad)
		}
		return p.notRun(&problem{cause: err, next: []string{p.command("exec", "CLAIM -- COMMAND") + "; flags after -- are the command's"}})
	})
	o.addFlags(cmd)
	return cmd
}

// addFlags adds the flags of commands that run a command.
func (o *execOptions) addFlags(cmd *cobra.Command) {
	containerFlag(cmd, &o.container)
	cmd.Flags().BoolVarP(&o.stdin, "stdin", "i", false, "pass standard input on; by default if it is not a terminal")
	cmd.Flags().BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal; by default if standard input and output are terminals")
}

// splitExec reads "CLAIM -- COMMAND...".
func (p *program) splitExec(cmd *cobra.Command, args []string) (target, []string, error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0 || dash == 0:
		return target{}, nil, usage(cmd, errors.New("exec needs the name of a claim"))
	case len(args) == 1:
		return target{}, nil, &problem{cause: errors.New("exec needs a command"),
			next: []string{p.command("exec", args[0], "-- sh") + " opens a shell"}}
	case dash != 1:
		return target{}, nil, &problem{cause: errors.New("exec needs -- between the claim and the command"),
			next: []string{p.command("exec", args[0], "--", strings.Join(args[1:], " "))}}
	}
	t, err := parseTarget(args[0])
	return t, args[1:], err
}

// attach decides about standard input and the terminal where the flags do not.
func (p *program) attach(cmd *cobra.Command, o *execOptions) {
	in, out := isTerminal(p.streams.In), isTerminal(p.streams.Out)
	if !cmd.Flags().Changed("tty") {
		refused := cmd.Flags().Changed("stdin") && !o.stdin
		o.tty = in && out && !refused
	}
	if !cmd.Flags().Changed("stdin") {
		o.stdin = o.tty || !in && p.streams.In != nil
	}
}

func (p *program) exec(ctx context.Context, o execOptions) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	pod, err := p.podOf(ctx, c, o.target)
	if err != nil {
		return err
	}
	o.container, err = p.containerOf(pod, o.container)
	if err != nil {
		return err
	}
	executor, err := newExecutor(c.config, pod, o)
	if err != nil {
		return err
	}
	err = p.stream(ctx, executor, o)
	if ctx.Err() != nil {
		return &problem{cause: leftRunning{o.command[0], pod.Name}, code: exitInterrupted}
	}
	return p.execError(err, pod, o)
}

// leftRunning is the error of a command that was interrupted: it does not end with its streams.
type leftRunning struct{ command, pod string }

func (l leftRunning) Error() string {
	return fmt.Sprintf("interrupted; %s may still run in pod %s", l.command, l.pod)
}

// newExecutor is for one command. It speaks WebSocket, and SPDY where a proxy or an old server does not.
func newExecutor(config *rest.Config, pod *corev1.Pod, o execOptions) (remotecommand.Executor, error) {
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	url := c.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: o.container,
			Command:   o.command,
			Stdin:     o.stdin,
			Stdout:    true,
			Stderr:    !o.tty, // a terminal has one output
			TTY:       o.tty,
		}, scheme.ParameterCodec).URL()
	websocket, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", url)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// stream runs the command with this program's streams.
func (p *program) stream(ctx context.Context, executor remotecommand.Executor, o execOptions) error {
	ctx = klog.NewContext(ctx, logr.Discard()) // how an interrupted command's streams end is no news
	options := remotecommand.StreamOptions{Stdout: p.streams.Out, Stderr: p.streams.ErrOut, Tty: o.tty}
	if o.stdin {
		options.Stdin = p.streams.In
	}
	if !o.tty {
		return executor.StreamWithContext(ctx, options)
	}
	options.Stderr = nil
	input, isFile := p.streams.In.(*os.File)
	if !isFile || !isTerminal(input) {
		return executor.StreamWithContext(ctx, options) // asked for with --tty: it is raw already, and has no size
	}
	terminal, err := takeTerminal(input, p.streams.Out)
	if err != nil {
		return err
	}
	defer terminal.giveBack()
	options.TerminalSizeQueue = terminal
	return executor.StreamWithContext(ctx, options)
}

// execError says how a command ended.
func (p *program) execError(err error, pod *corev1.Pod, o execOptions) error {
	if err == nil {
		return nil
	}
	var ended utilexec.CodeExitError
	if errors.As(err, &ended) {
		return exitCode(ended.ExitStatus())
	}
	// The node's container runtime reports a command that it could not start in words only.
	text := err.Error()
	switch {
	case noSuchCommand(err):
		return &problem{cause: fmt.Errorf("container %s of pod %s has no command %q", o.container, pod.Name, o.command[0]), code: exitNotFound,
			next: []string{"install it in the sandbox's image, or give its full path"}}
	case strings.Contains(text, "permission denied"):
		return &problem{cause: fmt.Errorf("%q in container %s of pod %s is not executable", o.command[0], o.container, pod.Name), code: exitNotExecutable,
			next: []string{"name a program, or run it with its interpreter"}}
	}
	return fmt.Errorf("run %s in pod %s: %w", o.command[0], pod.Name, err)
}

// notRun gives this program's own errors the exit code that tells them from the command's.
func (p *program) notRun(err error) error {
	var code exitCode
	if err == nil || errors.As(err, &code) {
		return err
	}
	err = p.explain(err)
	var known *problem
	if !errors.As(err, &known) {
		known = &problem{cause: err}
	}
	marked := *known
	if marked.code == 0 {
		marked.code = exitNotRun
	}
	return &marked
}
