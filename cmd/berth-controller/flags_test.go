// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// The flags and defaults that installations of this API rely on.
var contract = map[string]string{
	"version":                                          "false",
	"leader-elect":                                     "true",
	"leader-election-namespace":                        "",
	"extensions":                                       "false",
	"cluster-domain":                                   "cluster.local",
	"metrics-bind-address":                             ":8080",
	"health-probe-bind-address":                        ":8081",
	"webhook-port":                                     "9443",
	"webhook-cert-dir":                                 "/tmp/k8s-webhook-server/serving-certs",
	"webhook-cert-name":                                "tls.crt",
	"webhook-key-name":                                 "tls.key",
	"webhook-service-name":                             "agent-sandbox-webhook-service",
	"webhook-namespace":                                "agent-sandbox-system",
	"manage-webhook-certs":                             "true",
	"enable-webhook":                                   "true",
	"enable-tracing":                                   "false",
	"enable-pprof":                                     "false",
	"enable-pprof-debug":                               "false",
	"pprof-block-profile-rate":                         "1000000",
	"pprof-mutex-profile-fraction":                     "10",
	"kube-api-qps":                                     "-1",
	"kube-api-burst":                                   "10",
	"api-connections":                                  "1",
	"separate-watch-connection":                        "false",
	"sandbox-concurrent-workers":                       "100",
	"sandbox-claim-concurrent-workers":                 "50",
	"sandbox-warm-pool-concurrent-workers":             "1",
	"sandbox-template-concurrent-workers":              "1",
	"sandbox-warm-pool-max-batch-size":                 "300",
	"sandbox-warm-pool-replenish-delay":                "0s",
	"sandbox-warm-pool-max-refill-rate":                "0",
	"sandbox-warm-pool-readiness-grace-period":         "5m0s",
	"sandbox-warm-pool-unschedulable-recheck-interval": "1m0s",
	"enable-warm-pool-eviction":                        "true",
	"cache-label-selectors":                            "false",
	"disable-claim-events":                             "false",
	"disable-claim-observability-annotations":          "true", // where we differ: the times are in metrics
	"sandbox-write-behind-window":                      "0s",
	"zap-devel":                                        "false",
	"zap-log-level":                                    "",
	"kubeconfig":                                       "",
	"enable-agent-runtime":                             "false",
	"sandboxes-elsewhere":                              "false",
	"agent-runtime-namespace":                          "rossoctl-system",
	"agent-runtime-concurrent-workers":                 "10",
	"max-concurrent-restarts":                          "10",
	"max-concurrent-restarts-in-cluster":               "50",
	"restart-jitter":                                   "0s",
}

func TestEveryFlagIsTakenAndHasItsDefault(t *testing.T) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	(&settings{}).declare(flags)
	declareIdle(flags)
	for name, value := range contract {
		found := flags.Lookup(name)
		if found == nil {
			t.Errorf("there is no --%s", name)
		} else if found.DefValue != value {
			t.Errorf("--%s is %q by default, want %q", name, found.DefValue, value)
		}
	}
}

func TestCommandLinesOfInstallationsAreTaken(t *testing.T) {
	for _, line := range []string{
		"",
		"--leader-elect=true --extensions",
		"--extensions --sandbox-concurrent-workers=400 --sandbox-claim-concurrent-workers=400 --kube-api-qps=-1.000000 --kube-api-burst=2000",
		"-extensions -zap-log-level=debug --zap-encoder=json",
		"--enable-webhook=false --sandbox-write-behind-window=250ms --api-connections=4",
		"--sandbox-warm-pool-max-refill-rate=2.5 --sandbox-warm-pool-replenish-delay 3s",
		"--sandbox-template-concurrent-workers=0",
		"--enable-agent-runtime", "--enable-agent-runtime=auto --extensions", "--enable-agent-runtime=false",
		"--sandboxes-elsewhere --enable-agent-runtime --max-concurrent-restarts=3",
	} {
		if _, err := parse(strings.Fields(line), io.Discard); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestInvalidValuesAreRefusedByTheNameOfTheirFlag(t *testing.T) {
	for _, argument := range []string{
		"--kube-api-burst=0", "--kube-api-qps=fast", "--kube-api-qps=NaN",
		"--sandbox-concurrent-workers=0", "--sandbox-claim-concurrent-workers=-1", "--sandbox-warm-pool-concurrent-workers=0",
		"--sandbox-warm-pool-max-batch-size=0", "--sandbox-warm-pool-replenish-delay=-1s",
		"--sandbox-warm-pool-max-refill-rate=-1", "--sandbox-warm-pool-max-refill-rate=+Inf", "--sandbox-warm-pool-max-refill-rate=NaN",
		"--sandbox-warm-pool-readiness-grace-period=0", "--sandbox-warm-pool-unschedulable-recheck-interval=0s",
		"--enable-agent-runtime=perhaps", "--max-concurrent-restarts=-1", "--max-concurrent-restarts-in-cluster=-1",
		"--restart-jitter=-1s", "--agent-runtime-concurrent-workers=0", "--agent-runtime-namespace=", "--sandboxes-elsewhere",
		"--sandbox-write-behind-window=soon", "--extensions=perhaps", "--no-such-flag",
	} {
		name, _, _ := strings.Cut(strings.TrimLeft(argument, "-"), "=")
		if _, err := parse([]string{argument}, io.Discard); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s gave %v", argument, err)
		}
	}
	if _, err := parse([]string{"--extensions", "true"}, io.Discard); err == nil {
		t.Error("a stray argument was taken")
	}
}

func TestHelpNamesTheFlagsThatDoNothing(t *testing.T) {
	var help strings.Builder
	if _, err := parse([]string{"--help"}, &help); !errors.Is(err, errHelp) {
		t.Fatalf("gave %v", err)
	}
	working, idle, ok := strings.Cut(help.String(), "They do nothing:")
	if !ok || !strings.Contains(idle, "--api-connections") || strings.Contains(working, "--api-connections") {
		t.Errorf("--api-connections is not among the flags that do nothing:\n%s", help.String())
	}
	if !strings.Contains(working, "--extensions") || strings.Contains(idle, "--extensions") {
		t.Errorf("--extensions is not among the flags that do something:\n%s", help.String())
	}
}

func TestIdleFlagsThatWereGivenAreKnown(t *testing.T) {
	s, err := parse([]string{"--api-connections=8", "--extensions"}, io.Discard)
	if err != nil || len(s.idle) != 1 || s.idle[0] != "api-connections" {
		t.Errorf("knows %v, %v", s.idle, err)
	}
}

func TestALimitOnRequestsIsOffUnlessPositive(t *testing.T) {
	for argument, want := range map[string]float32{
		"--kube-api-qps=-1.000000": -1, "--kube-api-qps=0": -1, "--kube-api-qps=50": 50,
	} {
		s, err := parse([]string{argument}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		server := &rest.Config{}
		s.configure(server)
		if server.QPS != want || server.Burst != 10 {
			t.Errorf("%s: QPS is %v and burst %v", argument, server.QPS, server.Burst)
		}
	}
}

func TestSettingsReachTheirFields(t *testing.T) {
	s, err := parse(strings.Fields("--sandbox-warm-pool-readiness-grace-period=7m --sandbox-warm-pool-concurrent-workers=9 --enable-warm-pool-eviction=false"), io.Discard)
	if err != nil || s.readinessGrace != 7*time.Minute || s.warmPoolWorkers != 9 || s.warmPoolEviction {
		t.Errorf("%+v, %v", s, err)
	}
}
