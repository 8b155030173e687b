// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/berthdev/berth/internal/localcluster"
)

func (p *program) localCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Start and stop a Kubernetes cluster on this machine",
		Long: "Starts and stops a Kubernetes cluster of one node on this machine. It needs Linux and root, and a\n" +
			"checkout of Berth's sources, from which the first start builds Kubernetes.",
		Example: p.examples("eval \"$(berth local up)\"\nberth local down"),
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&name, "name", "", "the cluster's name (default \"berth\")")
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

func (p *program) localUpCommand(options func() localcluster.Options) *cobra.Command {
	return &cobra.Command{
		Use:     "up",
		Short:   "Start the cluster, or what of it does not run",
		Long:    "Starts the cluster, or what of it does not run, and prints the line that makes a shell use it.",
		Example: p.examples("eval \"$(berth local up)\""),
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if why := localcluster.NodeProblem(); why != "" {
				return &problem{cause: fmt.Errorf("no cluster can run here: %s", why), next: []string{"use another cluster with --kubeconfig or KUBECONFIG"}}
			}
			cluster, err := localcluster.Up(cmd.Context(), options())
			if err != nil {
				next := []string{p.name + " local down removes what was started"}
				if cmd.Context().Err() != nil {
					return &problem{cause: errors.New("interrupted; the cluster may have started in part"), next: next, code: exitInterrupted}
				}
				return &problem{cause: err, next: append(next, p.name+" local status names the logs")}
			}
			fmt.Fprintf(p.streams.Out, "export KUBECONFIG=%s\n", cluster.Kubeconfig())
			return nil
		},
	}
}

func (p *program) localDownCommand(options func() localcluster.Options) *cobra.Command {
	return &cobra.Command{
		Use:     "down",
		Short:   "Stop the cluster and remove all that it made on this machine",
		Example: p.examples("berth local down"),
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := localcluster.Down(cmd.Context(), options())
			if err != nil {
				return &problem{cause: err, next: []string{p.name + " local down goes on where it stopped"}}
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
			cluster, err := localcluster.Find(options())
			if errors.Is(err, os.ErrNotExist) {
				return &problem{cause: errors.New("there is no such cluster on this machine"), next: []string{p.name + " local up starts it"}}
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
