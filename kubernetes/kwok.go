// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// runKwok keeps fake nodes and the pods on them alive. Its configuration files are named by flags that
// are read before the others, because its command takes its defaults from them.
func runKwok() {
	// Kubernetes' libraries declare flags for every program they are in, and their --version is not kwok's.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
	early := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true
	early.Usage = func() {}
	ctx, _ := log.InitFlags(signals.SetupSignalContext(), early)
	ctx, err := config.InitFlags(ctx, early)
	if err == nil {
		command := cmd.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(early)
		err = command.ExecuteContext(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}
