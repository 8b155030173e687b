// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	agentruntimeapi "github.com/berthdev/berth/api/agentruntime/v1alpha1"
	"github.com/berthdev/berth/internal/leader"
)

// settings are what the flags say.
type settings struct {
	version    bool
	extensions bool

	// sandboxesElsewhere says that another controller runs the Sandboxes.
	sandboxesElsewhere bool

	agentRuntime                                 demand
	operatorNamespace                            string
	agentRuntimeWorkers                          int
	maxRestartsInNamespace, maxRestartsInCluster int
	restartJitter                                time.Duration

	leaderElect    bool
	leaseNamespace string

	clusterDomain string

	metricsAddress, healthAddress       string
	profile, profileDebug               bool
	blockProfileRate, mutexProfileShare int

	queriesPerSecond float64
	queryBurst       int

	sandboxWorkers, claimWorkers, warmPoolWorkers, templateWorkers int

	maxBatch         int
	replenishDelay   time.Duration
	maxRefillRate    float64
	readinessGrace   time.Duration
	recheckInterval  time.Duration
	warmPoolEviction bool

	noClaimEvents, noClaimTimes bool

	log zap.Options

	// idle are the flags that were given and do nothing.
	idle []string
}

// errHelp is returned when help was asked for and given.
var errHelp = flag.ErrHelp

// manyWorkers is a number of workers above which a warning is given.
const manyWorkers = 1000

// parse reads the command line. Both -name and --name are accepted.
func parse(args []string, help io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("berth-controller", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	s.declare(flags)
	idle := declareIdle(flags)
	flags.Usage = func() { usage(help, flags, idle) }
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: only flags are taken", flags.Arg(0))
	}
	flags.Visit(func(f *flag.Flag) {
		if idle[f.Name] {
			s.idle = append(s.idle, f.Name)
		}
	})
	err := s.validate()
	return s, err
}

func (s *settings) declare(flags *flag.FlagSet) {
	flags.BoolVar(&s.version, "version", false, "Print the version and exit.")
	flags.BoolVar(&s.extensions, "extensions", false, "Run the controllers of SandboxClaims, SandboxTemplates and SandboxWarmPools too.")
	s.declareAgentRuntime(flags)
	flags.BoolVar(&s.leaderElect, "leader-elect", true, "Act only while holding the Lease, so that one replica acts at a time.")
	flags.StringVar(&s.leaseNamespace, "leader-election-namespace", "", "Namespace of the Lease. Empty is the pod's own; outside a cluster it has to be set.")
	flags.StringVar(&s.clusterDomain, "cluster-domain", "cluster.local", "DNS domain of the cluster, which ends the names in status.serviceFQDN.")

	flags.StringVar(&s.metricsAddress, "metrics-bind-address", ":8080", "Address of the metrics, over plain HTTP. 0 serves none.")
	flags.StringVar(&s.healthAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz. 0 serves none.")
	flags.BoolVar(&s.profile, "enable-pprof", false, "Serve /debug/pprof/profile beside the metrics.")
	flags.BoolVar(&s.profileDebug, "enable-pprof-debug", false, "Serve all of /debug/pprof beside the metrics, which shows what is in memory.")
	flags.IntVar(&s.blockProfileRate, "pprof-block-profile-rate", 1_000_000,
		"With --enable-pprof-debug, sample one blocking event per so many nanoseconds blocked. 0 samples none.")
	flags.IntVar(&s.mutexProfileShare, "pprof-mutex-profile-fraction", 10, "With --enable-pprof-debug, sample one of so many contended mutexes. 0 samples none.")

	flags.Float64Var(&s.queriesPerSecond, "kube-api-qps", -1, "Requests to the API server per second. A negative number is no limit: the server has its own.")
	flags.IntVar(&s.queryBurst, "kube-api-burst", 10, "Requests that may exceed --kube-api-qps for a moment.")

	flags.IntVar(&s.sandboxWorkers, "sandbox-concurrent-workers", 100, "Sandboxes worked on at once.")
	flags.IntVar(&s.claimWorkers, "sandbox-claim-concurrent-workers", 50, "SandboxClaims worked on at once.")
	flags.IntVar(&s.warmPoolWorkers, "sandbox-warm-pool-concurrent-workers", 1, "SandboxWarmPools worked on at once.")
	flags.IntVar(&s.templateWorkers, "sandbox-template-concurrent-workers", 1, "SandboxTemplates worked on at once.")

	flags.IntVar(&s.maxBatch, "sandbox-warm-pool-max-batch-size", 300, "Members of a pool created or deleted in one go.")
	flags.DurationVar(&s.replenishDelay, "sandbox-warm-pool-replenish-delay", 0, "How long to wait after members left a pool before new ones are made.")
	flags.Float64Var(&s.maxRefillRate, "sandbox-warm-pool-max-refill-rate", 0, "Members one pool may create per second. 0 is no limit.")
	flags.DurationVar(&s.recheckInterval, "sandbox-warm-pool-unschedulable-recheck-interval", time.Minute,
		"How often pods of members that cannot be scheduled are looked at again.")
	flags.DurationVar(&s.readinessGrace, "sandbox-warm-pool-readiness-grace-period", 5*time.Minute,
		"How long a member of a pool may take to become ready, when nothing explains why it is not, before it is replaced.")
	flags.BoolVar(&s.warmPoolEviction, "enable-warm-pool-eviction", true, "Let the cluster autoscaler evict pods of pool members whose template does not say.")
	flags.BoolVar(&s.noClaimEvents, "disable-claim-events", false, "Record no events about SandboxClaims.")
	flags.BoolVar(&s.noClaimTimes, "disable-claim-observability-annotations", true,
		"Do not annotate SandboxClaims with when they were first seen and first Ready, one write for each. The metrics tell the difference in any case.")

	config.RegisterFlags(flags)
	s.log.BindFlags(flags)
}

func (s *settings) declareAgentRuntime(flags *flag.FlagSet) {
	flags.Var(&s.agentRuntime, "enable-agent-runtime",
		"Run the controller of AgentRuntimes: true, false, or auto, which is true if the server has AgentRuntimes when this program starts.")
	flags.BoolVar(&s.sandboxesElsewhere, "sandboxes-elsewhere", false,
		"Run no controller of Sandboxes: another one does. AgentRuntimes are the only thing left to run then, and the Lease is "+leader.AgentRuntimeLeaseName+".")
	flags.StringVar(&s.operatorNamespace, "agent-runtime-namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), agentruntimeapi.DefaultOperatorNamespace),
		"Namespace of the ConfigMaps "+agentruntimeapi.ConfigMapPlatform+" and "+agentruntimeapi.ConfigMapFeatureGates+
			", which configure all agents. The environment variable POD_NAMESPACE is the default if it is set.")
	flags.IntVar(&s.agentRuntimeWorkers, "agent-runtime-concurrent-workers", 10, "AgentRuntimes worked on at once.")
	flags.IntVar(&s.maxRestartsInNamespace, "max-concurrent-restarts", 10,
		"Workloads of one namespace whose pods are replaced at a time when the agents' configuration changes. 0 is no limit.")
	flags.IntVar(&s.maxRestartsInCluster, "max-concurrent-restarts-in-cluster", 50, "The same, of all namespaces together.")
	flags.DurationVar(&s.restartJitter, "restart-jitter", 0, "Longest time that such a replacement is put off, so that not all begin at once.")
}

// demand says whether something is to run: no, yes, or if it can.
type demand string

const (
	demandNo   demand = "false"
	demandYes  demand = "true"
	demandAuto demand = "auto"
)

// String implements flag.Value.
func (d *demand) String() string { return string(cmp.Or(*d, demandNo)) }

// Set implements flag.Value.
func (d *demand) Set(text string) error {
	switch value := demand(text); value {
	case demandNo, demandYes, demandAuto:
		*d = value
		return nil
	default:
		return errors.New("it must be true, false or auto")
	}
}

// IsBoolFlag makes the flag without a value mean true.
func (d *demand) IsBoolFlag() bool { return true }

// declareIdle declares the flags that other controllers of this API have, and whose
// mechanism this one does without. It returns their names.
func declareIdle(flags *flag.FlagSet) map[string]bool {
	idle := map[string]bool{}
	const noWebhook = "Versions are converted by the API server without a webhook."
	text := func(name, value string) { flags.String(name, value, noWebhook); idle[name] = true }
	duration := func(name string, value time.Duration, why string) {
		flags.Duration(name, value, why)
		idle[name] = true
	}
	boolean := func(name string, value bool, why string) { flags.Bool(name, value, why); idle[name] = true }
	number := func(name string, value int, why string) { flags.Int(name, value, why); idle[name] = true }

	boolean("enable-webhook", true, noWebhook)
	number("webhook-port", 9443, noWebhook)
	text("webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs")
	text("webhook-cert-name", "tls.crt")
	text("webhook-key-name", "tls.key")
	text("webhook-service-name", "agent-sandbox-webhook-service")
	text("webhook-namespace", "agent-sandbox-system")
	boolean("manage-webhook-certs", true, noWebhook)

	const connections = "Watches and each controller always have a connection of their own."
	number("api-connections", 1, connections)
	boolean("separate-watch-connection", false, connections)

	boolean("enable-tracing", false, "There are no traces yet.")
	boolean("cache-label-selectors", false, "Pods belong to a Sandbox by their owner's UID, which no selector can tell.")
	duration("sandbox-write-behind-window", 0, "Status is written at once, and only when it changes.")
	return idle
}

// usage prints every flag, those that do nothing last.
func usage(out io.Writer, flags *flag.FlagSet, idle map[string]bool) {
	var working, accepted strings.Builder
	flags.VisitAll(func(f *flag.Flag) {
		section := &working
		if idle[f.Name] {
			section = &accepted
		}
		kind, text := flag.UnquoteUsage(f)
		if kind != "" {
			kind = " " + kind
		}
		fmt.Fprintf(section, "  --%s%s (default %q)\n        %s\n", f.Name, kind, f.DefValue, text)
	})
	fmt.Fprintf(out, "The controller of Sandboxes, SandboxClaims, SandboxTemplates, SandboxWarmPools and AgentRuntimes.\n\n"+
		"usage: berth-controller [flags]\n\nFlags:\n%s\nAccepted for compatibility. They do nothing:\n%s",
		working.String(), accepted.String())
}

// validate returns what is wrong with the settings, naming the flags.
func (s *settings) validate() error {
	var wrong []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("--%s is %v: it must be %s", name, value, want))
		}
	}
	check(s.queryBurst > 0, "kube-api-burst", s.queryBurst, "more than 0")
	check(!math.IsNaN(s.queriesPerSecond) && s.queriesPerSecond <= math.MaxFloat32, "kube-api-qps", s.queriesPerSecond, "a number")
	check(s.sandboxWorkers > 0, "sandbox-concurrent-workers", s.sandboxWorkers, "more than 0")
	check(s.claimWorkers > 0, "sandbox-claim-concurrent-workers", s.claimWorkers, "more than 0")
	check(s.warmPoolWorkers > 0, "sandbox-warm-pool-concurrent-workers", s.warmPoolWorkers, "more than 0")
	check(s.maxBatch > 0, "sandbox-warm-pool-max-batch-size", s.maxBatch, "more than 0")
	check(s.replenishDelay >= 0, "sandbox-warm-pool-replenish-delay", s.replenishDelay, "0 or more")
	check(s.maxRefillRate >= 0 && !math.IsInf(s.maxRefillRate, 0), "sandbox-warm-pool-max-refill-rate", s.maxRefillRate, "0 or a positive number")
	check(s.readinessGrace > 0, "sandbox-warm-pool-readiness-grace-period", s.readinessGrace, "more than 0")
	check(s.agentRuntimeWorkers > 0, "agent-runtime-concurrent-workers", s.agentRuntimeWorkers, "more than 0")
	check(s.maxRestartsInNamespace >= 0, "max-concurrent-restarts", s.maxRestartsInNamespace, "0 or more")
	check(s.maxRestartsInCluster >= 0, "max-concurrent-restarts-in-cluster", s.maxRestartsInCluster, "0 or more")
	check(s.restartJitter >= 0, "restart-jitter", s.restartJitter, "0 or more")
	check(s.operatorNamespace != "", "agent-runtime-namespace", "empty", "the name of a namespace")
	check(!s.sandboxesElsewhere || !s.extensions, "sandboxes-elsewhere", s.sandboxesElsewhere, "false with --extensions")
	check(!s.sandboxesElsewhere || s.agentRuntime == demandYes, "sandboxes-elsewhere", s.sandboxesElsewhere, "false without --enable-agent-runtime")
	check(s.recheckInterval > 0, "sandbox-warm-pool-unschedulable-recheck-interval", s.recheckInterval, "more than 0")
	return errors.Join(wrong...)
}
