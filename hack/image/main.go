// SPDX-License-Identifier: Apache-2.0

// Command image builds the controller's image into an archive, with nothing but Go. Everything that loads
// images takes it: docker load, ctr images import, kind load image-archive.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/berthdev/berth/deploy"
	"github.com/berthdev/berth/internal/localcluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	reference := flag.String("reference", deploy.ControllerImage, "the image's name")
	output := flag.String("o", "berth-controller.tar", "the archive to write")
	flag.Parse()
	image, err := localcluster.NewGoImage(ctx, *reference, "./cmd/berth-controller")
	if err != nil {
		return err
	}
	file, err := os.Create(*output)
	if err != nil {
		return err
	}
	if err := errors.Join(image.Write(file), file.Close()); err != nil {
		return err
	}
	fmt.Printf("%s holds the image %s\n", *output, *reference)
	return nil
}
