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
	name := flag.String("name", localcluster.DefaultName, "the local cluster's name")
	flag.Parse()
	if err := localcluster.CheckName(*name); err != nil {
		return fmt.Errorf("-name %q: %w", *name, err)
	}
	options := demo.Options{
		Image: os.Getenv("BERTH_IMAGE"),
		Out:   os.Stdout, Progress: localcluster.NewProgress(os.Stdout),
	}
	if local := localName(*name); local != "" {
		cluster, err := localcluster.Up(ctx, localcluster.Options{Name: local, Progress: options.Progress})
		if err != nil {
			return err
		}
		options.Local, options.Kubeconfig = cluster, cluster.Kubeconfig()
	}
	return demo.Run(ctx, options)
}

// localName is the name of the local cluster to use: the one that KUBECONFIG is of, so that a shell which uses
// it already can show the demo again, or the own one if there is no KUBECONFIG. For others it is empty.
func localName(own string) string {
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		return own
	}
	name := localcluster.NameOf(kubeconfig)
	if name == own {
		return own // also when it was stopped: "make down" stops it again
	}
	if _, err := localcluster.Find(localcluster.Options{Name: name}); name == "" || err != nil {
		return ""
	}
	return name
}
