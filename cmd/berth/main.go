// SPDX-License-Identifier: Apache-2.0

// Command berth claims sandboxes and works in them. Installed as kubectl-berth it is "kubectl berth".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/internal/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	log.SetLogger(logr.Discard()) // what the client library logs is not for people; errors reach them as such
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks the command to stop and clean up; a second one ends the process.
	context.AfterFunc(ctx, stop)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	return cli.Run(ctx, os.Args, streams)
}
