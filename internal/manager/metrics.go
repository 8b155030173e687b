// SPDX-License-Identifier: Apache-2.0

package manager

import "github.com/prometheus/client_golang/prometheus"

// lagCollector reports how far the informers are behind this process's writes.
type lagCollector struct{ stores []store }

// The metrics' names are an interface, like flags.
const (
	metricEntries = "berth_view_unseen_writes"
	metricOldest  = "berth_view_oldest_unseen_write_seconds"
)

func (lagCollector) descriptions() (entries, oldest *prometheus.Desc) {
	labels := []string{"resource"}
	return prometheus.NewDesc(metricEntries, "Objects this process wrote that are held until the informer shows them.", labels, nil),
		prometheus.NewDesc(metricOldest, "Age of the oldest write that the informer has not caught up with.", labels, nil)
}

// Describe implements prometheus.Collector.
func (c lagCollector) Describe(out chan<- *prometheus.Desc) {
	entries, oldest := c.descriptions()
	out <- entries
	out <- oldest
}

// Collect implements prometheus.Collector.
func (c lagCollector) Collect(out chan<- prometheus.Metric) {
	entries, oldest := c.descriptions()
	for _, s := range c.stores {
		lag := s.lag()
		out <- prometheus.MustNewConstMetric(entries, prometheus.GaugeValue, float64(lag.Entries), s.resource)
		out <- prometheus.MustNewConstMetric(oldest, prometheus.GaugeValue, lag.Oldest.Seconds(), s.resource)
	}
}

// ownMetrics are all that a manager reports of itself.
type ownMetrics []prometheus.Collector

// Describe implements prometheus.Collector.
func (m ownMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m ownMetrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m {
		c.Collect(out)
	}
}
