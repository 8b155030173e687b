// SPDX-License-Identifier: Apache-2.0

// Command berth-controller runs the controllers of Sandboxes and, with --extensions, of
// SandboxTemplates, SandboxWarmPools and SandboxClaims, with --enable-agent-runtime of
// AgentRuntimes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berthdev/berth/internal/leader"
	"github.com/berthdev/berth/internal/manager"
)

func main() {
	s, err := parse(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, errHelp):
		return
	case err != nil:
		fail(os.Stderr, err)
	case s.version:
		fmt.Println(build())
		return
	}
	log := zap.New(zap.UseFlagOptions(&s.log))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	if err := run(ctrl.SetupSignalHandler(), log, s); err != nil {
		fail(os.Stderr, err)
	}
}

func fail(out io.Writer, err error) {
	fmt.Fprintf(out, "berth-controller: %v\n", err)
	os.Exit(1)
}

// run serves until ctx ends.
func run(ctx context.Context, log logr.Logger, s *settings) error {
	server, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	s.configure(server)
	controllers, err := s.controllers(server, metrics.Registry)
	if err != nil {
		return err
	}
	lease := ""
	if s.sandboxesElsewhere { // its own Lease is held by whoever runs them
		lease = leader.AgentRuntimeLeaseName
	}
	m, err := manager.New(server, manager.Options{
		Controllers: controllers, Extensions: s.extensions,
		AgentRuntimes: s.agentRuntime == demandYes, SandboxesElsewhere: s.sandboxesElsewhere, LeaseName: lease,
		LeaderElection: s.leaderElect, LeaseNamespace: s.leaseNamespace,
		MetricsAddress: s.metricsAddress, HealthAddress: s.healthAddress, Handlers: s.profiles(),
		Logger: log,
	})
	if err != nil {
		return err
	}
	if err := metrics.Registry.Register(build()); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	log.Info("Starting", "version", build().gitVersion, "commit", build().gitCommit, "extensions", s.extensions, "agentRuntime", s.agentRuntime == demandYes)
	for _, name := range s.idle {
		log.Info("A flag was given that does nothing; --help says why", "flag", name)
	}
	if workers := s.sandboxWorkers + s.claimWorkers + s.warmPoolWorkers + s.templateWorkers + s.agentRuntimeWorkers; workers > manyWorkers {
		log.Info("That is more workers than a server likes", "workers", workers)
	}
	return m.Start(ctx)
}

// configure sets how requests are made.
func (s *settings) configure(server *rest.Config) {
	server.UserAgent = fmt.Sprintf("berth-controller/%s (%s/%s)", build().gitVersion, runtime.GOOS, runtime.GOARCH)
	server.QPS, server.Burst = float32(s.queriesPerSecond), s.queryBurst
	if s.queriesPerSecond == 0 { // client-go takes 0 for its own default, 5
		server.QPS = -1
	}
}
