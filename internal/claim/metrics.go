// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
)

// The names, labels and buckets of the metrics are part of the API: dashboards, load
// tests and autoscalers ask for them.
const (
	metricFromController = "agent_sandbox_claim_controller_startup_latency_ms"
	metricFromWebhook    = "agent_sandbox_claim_startup_latency_ms"
	metricFromClient     = "agent_sandbox_client_claim_startup_latency_ms"
	metricCreations      = "agent_sandbox_claim_creation_total"

	labelUnknown    = "unknown"     // of a launch type or creator that is none of those known
	templateUnknown = "__unknown__" // of a Sandbox that does not say
	podReadyLabel   = "ready"
	podNotReady     = "not_ready"
)

// Metrics are what the controller counts and times. They are recorded when the server
// has the status that tells of the same, and once.
type Metrics struct {
	fromController, fromWebhook, fromClient *prometheus.HistogramVec
	creations                               *prometheus.CounterVec
}

// NewMetrics returns metrics that count from nothing. Register them once.
func NewMetrics() *Metrics {
	latency := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help,
			Buckets: []float64{100, 250, 500, 750, 1000, 1250, 1500, 2000, 2500, 5000, 10000, 30000, 60000, 120000, 240000},
		}, []string{"launch_type", "sandbox_template"})
	}
	return &Metrics{
		fromController: latency(metricFromController, "Milliseconds from when the controller first saw a claim until it was Ready."),
		fromWebhook:    latency(metricFromWebhook, "Milliseconds from when an admission webhook saw a claim, by its annotation, until it was Ready."),
		fromClient:     latency(metricFromClient, "Milliseconds from when a client asked for a claim, by its annotation, until it was Ready."),
		creations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: metricCreations, Help: "Claims that got a Sandbox.",
		}, []string{"namespace", "sandbox_template", "launch_type", "warmpool_name", "pod_condition", "created_by"}),
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.fromController, m.fromWebhook, m.fromClient, m.creations}
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

// bound counts a claim that got the Sandbox.
func (m *Metrics) bound(claim *extensions.SandboxClaim, s *agents.Sandbox) {
	condition := podNotReady
	if isReady(claim.Status) {
		condition = podReadyLabel
	}
	m.creations.WithLabelValues(claim.Namespace, templateOf(s), launchTypeOf(s), poolLabel(claim), condition,
		cmp.Or(agents.NormalizeCreatedBy(claim.Labels[agents.LabelCreatedBy]), agents.CreatedByUnknown)).Inc()
}

// ready times a claim that is Ready for the first time.
func (m *Metrics) ready(claim *extensions.SandboxClaim, s *agents.Sandbox, t times) {
	record := func(in *prometheus.HistogramVec, began time.Time) {
		if took := t.ready.Sub(began); !began.IsZero() && took >= 0 { // clocks differ, and people write annotations
			in.WithLabelValues(launchTypeOf(s), templateOf(s)).Observe(float64(took) / float64(time.Millisecond))
		}
	}
	record(m.fromController, t.seen)
	record(m.fromWebhook, annotatedTime(claim, agents.AnnotationWebhookFirstObservedAt))
	record(m.fromClient, annotatedTime(claim, agents.AnnotationClientFirstRequestedAt))
}

func annotatedTime(claim *extensions.SandboxClaim, key string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, claim.Annotations[key])
	if err != nil {
		return time.Time{}
	}
	return at
}

func templateOf(s *agents.Sandbox) string {
	return cmp.Or(s.Annotations[agents.AnnotationTemplateRef], templateUnknown)
}

func launchTypeOf(s *agents.Sandbox) string {
	switch launched := s.Labels[agents.LabelLaunchType]; launched {
	case agents.LaunchTypeWarm, agents.LaunchTypeCold:
		return launched
	default:
		return labelUnknown
	}
}

// poolLabel is the pool the claim names, or its choice if it names none.
func poolLabel(claim *extensions.SandboxClaim) string {
	if pool := claim.PoolName(); pool != "" {
		return pool
	}
	if claim.AnyPool() {
		return extensions.WarmPoolChoiceDefault
	}
	return extensions.WarmPoolChoiceNone
}

// isReady reports whether a claim's status says that it is Ready.
func isReady(status extensions.SandboxClaimStatus) bool {
	return apimeta.IsStatusConditionTrue(status.Conditions, agents.ConditionReady)
}

// isBound reports whether a claim's status says that it has a Sandbox.
func isBound(status extensions.SandboxClaimStatus) bool {
	return apimeta.IsStatusConditionTrue(status.Conditions, extensions.ConditionBound)
}
