// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/internal/install"
	"github.com/berthdev/berth/internal/localcluster"
)

func (p *program) localCommand() *cobra.Command {
	name := localcluster.DefaultName
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Start and stop a Kubernetes cluster on this machine",
		Long: "Starts and stops a Kubernetes cluster of one node with real pods on this machine. It needs Linux, root\n" +
			"and a checkout of Berth's sources, from which the first start builds Kubernetes. --name keeps several\n" +
			"apart.",
		Example: p.examples("eval \"$(berth local up)\"\nberth local down"),
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().Var(localName{&name}, "name", "the cluster's name")
	options := func() localcluster.Options {
		o := localcluster.Options{Name: name, Mode: localcluster.Node}
		if file, ok := p.streams.ErrOut.(*os.File); ok {
			o.Progress = localcluster.NewProgress(file)
		} else {
			o.Progress = localcluster.NewPlainProgress(p.streams.ErrOut)
		}
		return o
	}
	cmd.AddCommand(p.localUpCommand(options), p.localDownCommand(options), p.localStatusCommand(options))
	return cmd
}

// localName is a flag for the name of a local cluster.
type localName struct{ value *string }

func (n localName) String() string { return *n.value }
func (n localName) Type() string   { return "string" }

func (n localName) Set(text string) error {
	if err := localcluster.CheckName(text); err != nil {
		return badValue{err.Error(), `write a name such as "test" or "berth-2"`}
	}
	*n.value = text
	return nil
}

// local is a command line about a local cluster to suggest to a person.
func (p *program) local(command string, options localcluster.Options) string {
	line := p.name + " local " + command
	if options.Name != localcluster.DefaultName {
		line += " --name " + options.Name
	}
	return line
}

func (p *program) localUpCommand(options func() localcluster.Options) *cobra.Command {
	var bare bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster, or what of it does not run, and install Berth there",
		Long: "Starts the cluster, or what of it does not run, installs Berth there, and prints the line that makes a\n" +
			"shell use it. Run again, it brings the controller that the checkout has by then.\n\n" +
			"If it fails or is interrupted, what was started stays: run it again, or take it down.",
		Example: p.examples(`
			eval "$(berth local up)"

			# a cluster without Berth
			berth local up --bare --name empty`),
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.localUp(cmd.Context(), options(), bare)
		},
	}
	cmd.Flags().BoolVar(&bare, "bare", false, "start the cluster and do not install Berth")
	return cmd
}

func (p *program) localUp(ctx context.Context, options localcluster.Options, bare bool) error {
	if why := localcluster.NodeProblem(); why != "" {
		return &problem{cause: fmt.Errorf("no cluster can run here: %s", why), next: []string{"use another cluster with --kubeconfig or KUBECONFIG"}}
	}
	down := p.local("down", options) + " removes what was started"
	again := p.local("up", options) + " goes on from here"
	cluster, err := localcluster.Up(ctx, options)
	switch {
	case err != nil && ctx.Err() != nil:
		return &problem{cause: errors.New("interrupted; the cluster may have started in part"), next: []string{down, again}, code: exitInterrupted}
	case err != nil:
		return &problem{cause: err, next: []string{down, p.local("status", options) + " names the logs"}}
	}
	if !bare {
		err = installInto(ctx, cluster, options.Progress)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return &problem{cause: errors.New("interrupted; the cluster runs, and Berth may be installed there in part"), next: []string{again, down}, code: exitInterrupted}
	case err != nil:
		return &problem{cause: fmt.Errorf("the cluster runs, but Berth is not installed there: %w", err), next: []string{again, down}}
	}
	fmt.Fprintf(p.streams.Out, "export KUBECONFIG=%s\n", cluster.Kubeconfig())
	return nil
}

func installInto(ctx context.Context, cluster *localcluster.Cluster, progress *localcluster.Progress) error {
	config, err := cluster.RESTConfig()
	if err != nil {
		return err
	}
	config.WarningHandler = rest.NoWarnings{}
	return install.Berth(ctx, install.Options{Config: config, Local: cluster, Progress: progress})
}

func (p *program) localDownCommand(options func() localcluster.Options) *cobra.Command {
	return &cobra.Command{
		Use:     "down",
		Short:   "Stop the cluster and remove all that it made on this machine",
		Example: p.examples("berth local down"),
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := options()
			if _, err := localcluster.Find(o); errors.Is(err, os.ErrNotExist) {
				fmt.Fprintf(p.streams.ErrOut, "There is no cluster %s on this machine.\n", o.Name)
				return nil
			}
			if err := localcluster.Down(cmd.Context(), o); err != nil {
				return &problem{cause: err, next: []string{p.local("down", o) + " goes on where it stopped"}}
			}
			return nil
		},
	}
}

func (p *program) localStatusCommand(options func() localcluster.Options) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "List the parts of the cluster, whether they run, and their logs",
		Example: p.examples("berth local status"),
		Args:    none,
		RunE: func(_ *cobra.Command, _ []string) error {
			o := options()
			cluster, err := localcluster.Find(o)
			if errors.Is(err, os.ErrNotExist) {
				return &problem{cause: fmt.Errorf("there is no cluster %s on this machine", o.Name), next: []string{p.local("up", o) + " starts it"}}
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(p.streams.Out, "cluster %s, KUBECONFIG=%s\n", cluster.Name(), cluster.Kubeconfig())
			for _, part := range cluster.Status() {
				state := "not running"
				if part.PID != 0 {
					state = fmt.Sprintf("process %d", part.PID)
				}
				fmt.Fprintf(p.streams.Out, "%-24s %-16s %s\n", part.Name, state, part.Log)
			}
			return nil
		},
	}
}
