// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line for people: it claims sandboxes, runs commands in them, lists them
// and gives them back.
//
// A command is a file: its flags and help, then what it does. All commands reach the cluster through
// connect, wait through follow, and fail with a problem, which says what is wrong and what to do next.
package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const (
	// pluginName is what kubectl looks for on the PATH when somebody types "kubectl berth".
	pluginName = "kubectl-berth"
	// completerName is what it looks for to complete that, and runs with what was typed so far.
	completerName = "kubectl_complete-berth"
)

// program is one run of the command line.
type program struct {
	name    string // what a person types to run it
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	root    *cobra.Command
}

// Run runs one command line and returns the exit code. The first argument is the name that the program
// was called by. When ctx ends, the command stops, and cleans up or says what it leaves.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	p := newProgram(args[0], streams)
	line := args[1:]
	if called(args[0]) == completerName {
		line = append([]string{cobra.ShellCompRequestCmd}, line...)
	}
	p.root.SetArgs(line)
	err := p.root.ExecuteContext(ctx)
	return p.report(p.explain(err))
}

func newProgram(calledBy string, streams genericiooptions.IOStreams) *program {
	p := &program{name: displayName(calledBy), streams: streams, flags: genericclioptions.NewConfigFlags(true)}
	p.root = &cobra.Command{
		Use:   "berth",
		Short: "Claim sandboxes on Kubernetes and work in them",
		Long: "berth claims sandboxes on Kubernetes and works in them.\n\n" +
			"It finds the cluster as kubectl does: --kubeconfig or KUBECONFIG, --context, -n. It takes all of\n" +
			"kubectl's connection flags (--as, --server, --token, ...), of which the help shows the most used\n" +
			"ones. On the PATH under the name kubectl-berth, it is \"kubectl berth\".\n\n" +
			"Results go to standard output, and everything said meanwhile to standard error. An error names its\n" +
			"cause, and then what to do next, the likeliest first:\n" +
			"  $ berth claim pythn\n" +
			"  Created claim pythn-hk7f5.\n" +
			"  Error: claim pythn-hk7f5 gets no sandbox: WarmPoolNotFound: SandboxWarmPool \"pythn\" not found\n" +
			"  Next: create the SandboxWarmPool \"pythn\" in namespace \"default\", and the claim goes on; or claim from another pool\n" +
			"    or: berth release pythn-hk7f5 gives the claim up; until then it is kept\n\n" +
			"Ctrl-C stops any command: what it has made by then is removed again, or named. The exit code is\n" +
			"then 130, and 1 after other errors; exec and claim --rm have more. Colours are only for terminals,\n" +
			"and not where NO_COLOR is set.",
		Example: p.examples(`
			# a sandbox from the warm pool "python", a command in it, and back again
			claim=$(berth claim python)
			berth exec $claim -- python3 -c 'print(6 * 7)'
			berth release $claim`),
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return p.unknownCommand(args[0])
		},
	}
	p.root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: p.name}
	p.root.SetIn(streams.In)
	p.root.SetOut(streams.Out)
	p.root.SetErr(streams.ErrOut)
	p.root.SetFlagErrorFunc(usage)
	p.root.CompletionOptions.DisableDefaultCmd = true // there is one that says more
	p.flags.AddFlags(p.root.PersistentFlags())
	hideRareFlags(p.root.PersistentFlags())
	p.root.AddCommand(
		p.claimCommand(),
		p.execCommand(),
		p.cpCommand(),
		p.portForwardCommand(),
		p.logsCommand(),
		p.lsCommand(),
		p.poolsCommand(),
		p.whyCommand(),
		p.eventsCommand(),
		p.suspendCommand(),
		p.resumeCommand(),
		p.releaseCommand(),
		p.agentsCommand(),
		p.localCommand(),
		p.versionCommand(),
		p.completionCommand(),
	)
	return p
}

// displayName is what a person types to run the program.
func displayName(calledBy string) string {
	switch called(calledBy) {
	case pluginName, completerName:
		return "kubectl berth"
	}
	return "berth"
}

// called is the name of the file that was run.
func called(by string) string { return strings.TrimSuffix(filepath.Base(by), ".exe") }

// examples gives the text of a command's examples, indented for the help and with the program's name.
func (p *program) examples(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		if line = strings.TrimLeft(line, "\t"); line != "" {
			line = "  " + line
		}
		lines[i] = line
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "berth ", p.name+" ")
}

// hideRareFlags keeps the help short. Hidden flags work.
func hideRareFlags(flags *pflag.FlagSet) {
	shown := map[string]bool{"kubeconfig": true, "context": true, "namespace": true}
	flags.VisitAll(func(flag *pflag.Flag) { flag.Hidden = !shown[flag.Name] })
}

// command is a command line to suggest to a person: it repeats the flags that chose the cluster and
// the namespace.
func (p *program) command(name string, args ...string) string {
	words := []string{p.name, name}
	for _, flag := range []string{"kubeconfig", "context", "namespace"} {
		if given := p.root.PersistentFlags().Lookup(flag); given.Changed {
			words = append(words, "--"+flag, given.Value.String())
		}
	}
	return strings.Join(append(words, args...), " ")
}

func (p *program) unknownCommand(name string) error {
	next := p.name + " --help lists the commands"
	if near := p.root.SuggestionsFor(name); len(near) > 0 {
		next = "did you mean: " + p.name + " " + strings.Join(near, ", ") + "?"
	}
	return &problem{cause: fmt.Errorf("there is no command %q", name), next: []string{next}}
}

// usage is a problem with how a command was written.
func usage(cmd *cobra.Command, err error) error {
	if bad, known := flagProblem(err); known {
		bad.next = append(bad.next, cmd.CommandPath()+" --help")
		return bad
	}
	return &problem{cause: err, next: []string{cmd.UseLine(), cmd.CommandPath() + " --help"}}
}

// one lets a command have exactly one argument; what says which.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage(cmd, fmt.Errorf("%s needs %s, and got %d arguments", cmd.Name(), what, len(args)))
		}
		return nil
	}
}

// none lets a command have no arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(cmd, fmt.Errorf("%s takes no arguments, and got %q", cmd.Name(), args[0]))
	}
	return nil
}
