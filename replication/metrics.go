package replication

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type serverMetrics struct {
	followers prometheus.Gauge
	encoded   prometheus.Counter
	sent      *prometheus.CounterVec // by type
	bytes     prometheus.Counter
	resets    *prometheus.CounterVec // by reason
	snapshots prometheus.Counter
	sums      prometheus.Counter
	slow      prometheus.Counter
	failures  prometheus.Counter

	running *prometheus.GaugeVec   // by kind
	refused *prometheus.CounterVec // by kind
}

func newServerMetrics(reg prometheus.Registerer) (*serverMetrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	gauges := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	}
	m := &serverMetrics{
		followers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waypost_replication_followers", Help: "Followers connected to the stream.",
		}),
		encoded:   counter("waypost_replication_frames_encoded_total", "Batch frames encoded, each once for all followers that share it."),
		sent:      vector("waypost_replication_frames_sent_total", "Frames sent to followers.", "type"),
		bytes:     counter("waypost_replication_sent_bytes_total", "Bytes of frames sent to followers."),
		resets:    vector("waypost_replication_resets_total", "Followers told that they need a snapshot.", "reason"),
		snapshots: counter("waypost_replication_snapshots_total", "Snapshots begun, those of single slots included."),
		sums:      counter("waypost_replication_sums_total", "Comparisons of slots begun by followers."),
		slow:      counter("waypost_replication_followers_dropped_total", "Followers dropped because they took a frame too slowly."),
		failures:  counter("waypost_replication_source_failures_total", "Readings of the source that failed."),
		running:   gauges("waypost_replication_transfers", "Snapshots, and comparisons of slots (sums), under way.", "of"),
		refused:   vector("waypost_replication_transfers_refused_total", "Requests for snapshots, or for sums, that were refused because too many were under way.", "of"),
	}
	if reg == nil {
		return m, nil
	}
	all := []prometheus.Collector{
		m.followers, m.encoded, m.sent, m.bytes, m.resets, m.snapshots, m.sums, m.slow, m.failures, m.running, m.refused,
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register replication metrics: %w", err)
		}
	}
	return m, nil
}

// limiter returns the metrics of one limiter.
func (m *serverMetrics) limiter(of string) limiterMetrics {
	return limiterMetrics{m.running.WithLabelValues(of), m.refused.WithLabelValues(of)}
}
