// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Set by the linker: -ldflags "-X main.gitVersion=v1.2.3". What is not set is taken
// from what the go command records in the binary.
var gitVersion, gitCommit, buildDate string

// buildInfo says what this binary is made from. It is a metric, too.
type buildInfo struct {
	gitVersion, gitCommit, buildDate string
}

func build() buildInfo {
	info := buildInfo{gitVersion: gitVersion, gitCommit: gitCommit, buildDate: buildDate}
	recorded, ok := debug.ReadBuildInfo()
	if !ok {
		return info.orUnknown()
	}
	for _, setting := range recorded.Settings {
		switch {
		case setting.Key == "vcs.revision" && info.gitCommit == "":
			info.gitCommit = setting.Value
		case setting.Key == "vcs.time" && info.buildDate == "":
			info.buildDate = setting.Value
		}
	}
	if version := recorded.Main.Version; info.gitVersion == "" && version != "(devel)" {
		info.gitVersion = version
	}
	return info.orUnknown()
}

func (b buildInfo) orUnknown() buildInfo {
	if b.gitVersion == "" {
		b.gitVersion = "dev"
	}
	for _, field := range []*string{&b.gitCommit, &b.buildDate} {
		if *field == "" {
			*field = "unknown"
		}
	}
	return b
}

func (b buildInfo) String() string {
	return fmt.Sprintf("berth-controller %s (commit %s, built %s, %s, %s)", b.gitVersion, b.gitCommit, b.buildDate, runtime.Version(), platform())
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Describe implements prometheus.Collector.
func (b buildInfo) Describe(out chan<- *prometheus.Desc) { out <- b.gauge().Desc() }

// Collect implements prometheus.Collector.
func (b buildInfo) Collect(out chan<- prometheus.Metric) { out <- b.gauge() }

// gauge is always 1; dashboards of this API join it by its labels.
func (b buildInfo) gauge() prometheus.Metric {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "agent_sandbox_build_info",
		Help: "What the controller is made from. The value is 1.",
		ConstLabels: prometheus.Labels{
			"git_version": b.gitVersion, "git_commit": b.gitCommit, "build_date": b.buildDate,
			"go_version": runtime.Version(), "compiler": runtime.Compiler, "platform": platform(),
		},
	})
	gauge.Set(1)
	return gauge
}
