// SPDX-License-Identifier: Apache-2.0

// Command cluster builds, starts and stops the local cluster for the Makefile.
//
// usage: cluster [-name NAME] [-control-plane] build | up | down | status
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/berthdev/berth/internal/localcluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	options := localcluster.Options{Mode: localcluster.Node, Progress: localcluster.NewProgress(os.Stderr)}
	flag.StringVar(&options.Name, "name", localcluster.DefaultName, "the cluster's name")
	controlPlane := flag.Bool("control-plane", false, "start no node, only etcd, the API server and controllers")
	flag.Parse()
	if err := localcluster.CheckName(options.Name); err != nil {
		return fmt.Errorf("-name %q: %w", options.Name, err)
	}
	if *controlPlane {
		options.Mode, options.ControllerManager, options.Scheduler = localcluster.ControlPlane, true, true
	}
	switch flag.Arg(0) {
	case "build":
		_, err := localcluster.Build(ctx, options.Progress)
		return err
	case "up":
		cluster, err := localcluster.Up(ctx, options)
		if err != nil {
			return err
		}
		fmt.Printf("export KUBECONFIG=%s\n", cluster.Kubeconfig())
		return nil
	case "down":
		return localcluster.Down(ctx, options)
	case "status":
		return status(options)
	default:
		flag.Usage()
		return fmt.Errorf("want one of build, up, down, status")
	}
}

func status(options localcluster.Options) error {
	parts, err := localcluster.Status(options)
	if os.IsNotExist(err) {
		fmt.Printf("there is no cluster %s\n", options.Name)
		return nil
	}
	for _, part := range parts {
		state := "not running"
		if part.PID != 0 {
			state = fmt.Sprintf("process %d", part.PID)
		}
		fmt.Printf("%-24s %-16s %s\n", part.Name, state, part.Log)
	}
	return err
}
