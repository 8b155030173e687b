// SPDX-License-Identifier: Apache-2.0

// Command demo claims a sandbox from a warm pool and runs a command in it: on the
// cluster that KUBECONFIG names, or else on a local one, which it starts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/internal/demo"
	"github.com/berthdev/berth/internal/localcluster"
)

func main() {
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	interrupted := ctx.Err() != nil
	stop()
	if err != nil {
		if interrupted {
			err = errors.New("interrupted; \"make demo\" goes on from here, \"make down\" cleans up")
		}
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	name := flag.String("name", "berth", "the local cluster's name")
	flag.Parse()
	options := demo.Options{
		Image: os.Getenv("BERTH_IMAGE"),
		Out:   os.Stdout, Progress: localcluster.NewProgress(os.Stdout),
	}
	if os.Getenv("KUBECONFIG") == "" {
		cluster, err := localcluster.Up(ctx, localcluster.Options{Name: *name, Progress: options.Progress})
		if err != nil {
			return err
		}
		options.Local, options.Kubeconfig = cluster, cluster.Kubeconfig()
	}
	return demo.Run(ctx, options)
}
