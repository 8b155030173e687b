// SPDX-License-Identifier: Apache-2.0

package agentruntime

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// The metrics' names are an interface, like flags.
const (
	metricRollouts   = "berth_agentruntime_rollouts_total"
	metricDuration   = "berth_agentruntime_rollout_duration_seconds"
	metricPending    = "berth_agentruntime_pending_restarts"
	metricConflicts  = "berth_agentruntime_conflicts_total"
	metricHashErrors = "berth_agentruntime_config_hash_errors_total"
)

// Results of a rollout.
const (
	resultComplete   = "complete"
	resultStalled    = "stalled"
	resultSuperseded = "superseded" // by another configuration
	resultAborted    = "aborted"    // paused, refused, or left
)

// Metrics are what the controller counts and times.
type Metrics struct {
	rollouts   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	conflicts  prometheus.Counter
	hashErrors prometheus.Counter
	waiting    prometheus.GaugeFunc

	mu      sync.Mutex
	pending map[types.NamespacedName]struct{}
}

// NewMetrics returns metrics that count from nothing. Register them once.
func NewMetrics() *Metrics {
	m := &Metrics{
		rollouts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricRollouts, Help: "Rollouts that ended, by the workload's kind and how.",
		}, []string{"kind", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: metricDuration, Help: "Seconds from when pods began to be replaced until all were.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200},
		}, []string{"kind"}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: metricConflicts, Help: "Times that somebody else turned out to have a say about what is put on a workload.",
		}),
		hashErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: metricHashErrors, Help: "Times that a configuration became unreadable.",
		}),
		pending: map[types.NamespacedName]struct{}{},
	}
	m.waiting = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: metricPending, Help: "AgentRuntimes whose pods have to be replaced, and wait until others' are.",
	}, m.countPending)
	return m
}

func (m *Metrics) countPending() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(len(m.pending))
}

func (m *Metrics) setPending(key types.NamespacedName, waits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if waits {
		m.pending[key] = struct{}{}
	} else {
		delete(m.pending, key)
	}
}

// count counts what a status that was written says.
func (m *Metrics) count(t transition) {
	if t.conflict {
		m.conflicts.Inc()
	}
	if t.hashError {
		m.hashErrors.Inc()
	}
	if t.result == "" {
		return
	}
	m.rollouts.WithLabelValues(t.kind, t.result).Inc()
	if t.result == resultComplete {
		m.duration.WithLabelValues(t.kind).Observe(t.took.Seconds())
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.rollouts, m.duration, m.conflicts, m.hashErrors, m.waiting}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(out)
	}
}
