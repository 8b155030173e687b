// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	agents "github.com/berthdev/berth/api/agents/v1beta1"
	extensions "github.com/berthdev/berth/api/extensions/v1beta1"
	"github.com/berthdev/berth/internal/control"
)

// The names and labels of metrics that dashboards of this API, and autoscalers of
// pools, ask for.
const (
	metricSandboxes       = "agent_sandboxes"
	metricCreationLatency = "agent_sandbox_creation_latency_ms"
	ownedByNobody         = "None"
	unknown               = "unknown"
)

// firstStatus is how long after its creation a Sandbox has its first status at the
// latest. One whose Ready condition changed later than that has been Ready before.
const firstStatus = 5 * time.Second

// census counts Sandboxes as they come, change and go, so that asking for the numbers
// costs nothing, however many there are.
type census struct {
	mu      sync.Mutex
	counts  map[cohort]int
	pending map[types.UID]struct{} // Sandboxes that have not been Ready yet
	latency *prometheus.HistogramVec
}

// cohort are Sandboxes that share the values of all labels.
type cohort struct{ namespace, ready, expired, launchType, template, ownedBy, createdBy string }

func newCensus() *census {
	return &census{
		counts:  map[cohort]int{},
		pending: map[types.UID]struct{}{},
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    metricCreationLatency,
			Help:    "Milliseconds from the creation of a Sandbox until it was first Ready. Kubernetes keeps both times in seconds.",
			Buckets: []float64{50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 240000, 300000, 600000},
		}, []string{"namespace", "launch_type", "sandbox_template"}),
	}
}

// watch counts the Sandboxes of an informer.
func (c *census) watch(informers cache.Cache) error {
	informer, err := informers.GetInformer(context.Background(), &agents.Sandbox{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.change(nil, sandboxOf(obj)) },
		UpdateFunc: func(before, after any) { c.change(sandboxOf(before), sandboxOf(after)) },
		DeleteFunc: func(obj any) { c.change(sandboxOf(obj), nil) },
	})
	return err
}

func sandboxOf(obj any) *agents.Sandbox {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	s, _ := obj.(*agents.Sandbox)
	return s
}

// change counts a Sandbox that was before and is after; nil is not at all.
func (c *census) change(before, after *agents.Sandbox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before != nil {
		was := groupOf(before)
		if c.counts[was]--; c.counts[was] <= 0 {
			delete(c.counts, was)
		}
	}
	switch {
	case after == nil:
		if before != nil {
			delete(c.pending, before.UID)
		}
		return
	case before == nil || before.UID != after.UID:
		if neverReady(after) {
			c.pending[after.UID] = struct{}{}
		}
	}
	c.counts[groupOf(after)]++
	c.time(after)
}

// time records how long a Sandbox took, when it is Ready for the first time.
func (c *census) time(s *agents.Sandbox) {
	ready := meta.FindStatusCondition(s.Status.Conditions, agents.ConditionReady)
	if _, waits := c.pending[s.UID]; !waits || ready == nil || ready.Status != metav1.ConditionTrue {
		return
	}
	delete(c.pending, s.UID)
	of := groupOf(s)
	took := ready.LastTransitionTime.Sub(s.CreationTimestamp.Time)
	c.latency.WithLabelValues(of.namespace, of.launchType, of.template).Observe(float64(max(took, 0).Milliseconds()))
}

// neverReady reports whether a Sandbox that is seen for the first time has not been
// Ready before.
func neverReady(s *agents.Sandbox) bool {
	ready := meta.FindStatusCondition(s.Status.Conditions, agents.ConditionReady)
	return ready == nil || ready.Status != metav1.ConditionTrue && ready.LastTransitionTime.Sub(s.CreationTimestamp.Time) < firstStatus
}

func groupOf(s *agents.Sandbox) cohort {
	ready := meta.FindStatusCondition(s.Status.Conditions, agents.ConditionReady)
	g := cohort{
		namespace:  s.Namespace,
		ready:      strconv.FormatBool(ready != nil && ready.Status == metav1.ConditionTrue),
		expired:    strconv.FormatBool(ready != nil && ready.Reason == agents.ReasonSandboxExpired),
		launchType: unknown,
		template:   cmp.Or(s.Annotations[agents.AnnotationTemplateRef], unknown),
		ownedBy:    ownedByNobody,
		createdBy:  cmp.Or(agents.NormalizeCreatedBy(s.Labels[agents.LabelCreatedBy]), agents.CreatedByUnknown),
	}
	if launched := s.Labels[agents.LabelLaunchType]; launched == agents.LaunchTypeWarm || launched == agents.LaunchTypeCold {
		g.launchType = launched
	}
	for _, kind := range []string{"SandboxClaim", "SandboxWarmPool"} {
		if control.ControllerOf(s, extensions.GroupVersion.Group, kind) != nil {
			g.ownedBy = kind
		}
	}
	return g
}

var sandboxesDescription = prometheus.NewDesc(metricSandboxes, "Sandboxes there are.",
	[]string{"namespace", "ready_condition", "expired", "launch_type", "sandbox_template", "owned_by", "created_by"}, nil)

// Describe implements prometheus.Collector.
func (c *census) Describe(out chan<- *prometheus.Desc) {
	out <- sandboxesDescription
	c.latency.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *census) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	for g, n := range c.counts { // whoever gathers metrics orders them
		out <- prometheus.MustNewConstMetric(sandboxesDescription, prometheus.GaugeValue, float64(n),
			g.namespace, g.ready, g.expired, g.launchType, g.template, g.ownedBy, g.createdBy)
	}
	c.mu.Unlock()
	c.latency.Collect(out)
}

// whileLeading shows metrics only where the controllers run: a sum over all replicas
// would count everything as often as there are replicas.
type whileLeading struct {
	prometheus.Collector
	elected <-chan struct{}
}

// Collect implements prometheus.Collector.
func (w whileLeading) Collect(out chan<- prometheus.Metric) {
	select {
	case <-w.elected:
		w.Collector.Collect(out)
	default:
	}
}
