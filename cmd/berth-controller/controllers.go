// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/berthdev/berth/internal/agentruntime"
	"github.com/berthdev/berth/internal/claim"
	"github.com/berthdev/berth/internal/control"
	"github.com/berthdev/berth/internal/kinds"
	"github.com/berthdev/berth/internal/manager"
	"github.com/berthdev/berth/internal/sandbox"
	"github.com/berthdev/berth/internal/template"
	"github.com/berthdev/berth/internal/warmpool"
)

// labelDomainsFile is where a ConfigMap may say which domains claims may take labels
// from. It is read once.
const labelDomainsFile = "/etc/sandbox-config/allowed-label-domains"

// controllers are those that run, by what the flags say. Their names in events are part
// of the API.
func (s *settings) controllers(server *rest.Config, metrics prometheus.Registerer) ([]manager.Controller, error) {
	run, err := s.agentRuntimes(server, metrics)
	if err != nil || s.sandboxesElsewhere {
		return run, err
	}
	pods, err := manager.WholePods(server)
	if err != nil {
		return nil, err
	}
	run = append(run, manager.Controller{Events: "sandbox-controller", Workers: s.sandboxWorkers,
		New: func(env control.Environment, views kinds.Views) control.Controller {
			return sandbox.New(env, views, sandbox.Options{
				ClusterDomain: s.clusterDomain, WarmPoolEviction: &s.warmPoolEviction, WholePods: pods,
			})
		}})
	if !s.extensions {
		return run, nil
	}
	domains, err := labelDomains(labelDomainsFile)
	if err != nil {
		return nil, err
	}
	timesOfClaims := claim.NewMetrics()
	if err := metrics.Register(timesOfClaims); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return append(run,
		manager.Controller{Events: "sandboxtemplate-controller", Workers: s.templateWorkers,
			New: func(env control.Environment, views kinds.Views) control.Controller {
				return template.New(env, views)
			}},
		manager.Controller{Events: "sandboxwarmpool-controller", Workers: s.warmPoolWorkers,
			New: func(env control.Environment, views kinds.Views) control.Controller {
				return warmpool.New(env, views, warmpool.Options{
					MaxBatchSize: s.maxBatch, ReadinessGracePeriod: s.readinessGrace,
					UnschedulableRecheckInterval: s.recheckInterval,
					ReplenishDelay:               s.replenishDelay, MaxRefillRate: s.maxRefillRate,
				})
			}},
		manager.Controller{Events: "sandboxclaim-controller", Workers: s.claimWorkers,
			New: func(env control.Environment, views kinds.Views) control.Controller {
				return claim.New(env, views, claim.Options{
					AllowedLabelDomains: domains, Quiet: s.noClaimEvents, Metrics: timesOfClaims, AnnotateTimes: !s.noClaimTimes,
				})
			}},
	), nil
}

// agentRuntimes is the controller of AgentRuntimes, if it is to run.
func (s *settings) agentRuntimes(server *rest.Config, metrics prometheus.Registerer) ([]manager.Controller, error) {
	if s.agentRuntime == demandAuto {
		served, err := manager.Serves(server, kinds.AgentRuntimes().GVK)
		if err != nil {
			return nil, err
		}
		s.agentRuntime = demandNo
		if served {
			s.agentRuntime = demandYes
		}
	}
	if s.agentRuntime != demandYes {
		return nil, nil
	}
	lists, err := manager.NewLists(server)
	if err != nil {
		return nil, err
	}
	counted := agentruntime.NewMetrics()
	if err := metrics.Register(counted); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return []manager.Controller{{Events: "agentruntime-controller", Workers: s.agentRuntimeWorkers,
		New: func(env control.Environment, views kinds.Views) control.Controller {
			return agentruntime.New(env, views, agentruntime.Options{
				OperatorNamespace:              s.operatorNamespace,
				MaxConcurrentRestarts:          s.maxRestartsInNamespace,
				MaxConcurrentRestartsInCluster: s.maxRestartsInCluster,
				RestartJitter:                  s.restartJitter,
				Lister:                         lists, Metrics: counted,
			})
		}}}, nil
}

// labelDomains reads domains that are separated by commas or lines. A file that is not
// there has none.
func labelDomains(file string) ([]string, error) {
	contents, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the domains that labels may have: %w", err)
	}
	var domains []string
	for _, domain := range strings.FieldsFunc(string(contents), func(r rune) bool { return r == ',' || r == '\n' }) {
		if domain = strings.ToLower(strings.TrimSpace(domain)); domain != "" {
			domains = append(domains, domain)
		}
	}
	return domains, nil
}
