package replica

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	all         []prometheus.Collector
	quarantined prometheus.Counter
	unreadable  prometheus.Counter
	poison      prometheus.Counter
	records     prometheus.Counter
	seconds     prometheus.Histogram
}

func newMetrics(db *DB) *metrics {
	m := &metrics{}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "waypost_replica_" + name, Help: help})
		m.all = append(m.all, c)
		return c
	}
	gauge := func(name, help string, read func(*state) float64) {
		m.all = append(m.all, prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "waypost_replica_" + name, Help: help}, func() float64 {
				if st := db.live.Load(); st != nil {
					return read(st.applied.Load())
				}
				return 0
			}))
	}
	gauge("position_seq", "Sequence of the changelog that the replica has applied.",
		func(s *state) float64 { return float64(s.position.Seq) })
	gauge("position_epoch", "Ordinal of the epoch that the replica is in.",
		func(s *state) float64 { return float64(s.position.Epoch.Ordinal) })
	gauge("records", "Records that the replica holds, tombstones included.",
		func(s *state) float64 { return float64(s.records) })
	m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waypost_replica_degraded", Help: "1 while the replica serves reads but takes no changes.",
	}, func() float64 {
		if db.Degraded() != nil {
			return 1
		}
		return 0
	}))
	m.quarantined = counter("quarantined_total", "Stores that could not be read and were set aside.")
	m.unreadable = counter("unreadable_total", "Readings of a link that failed or gave what must not be served.")
	m.poison = counter("poison_records_total", "Records applied that break the rules and are never served.")
	m.records = counter("applied_records_total", "Records applied, by batches and by restores.")
	m.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "waypost_replica_apply_seconds", Help: "Time to apply a batch.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
	})
	m.all = append(m.all, m.seconds)
	return m
}

// taken counts what a writer has committed.
func (m *metrics) taken(w *writer) {
	m.records.Add(float64(w.records))
	m.poison.Add(float64(w.poison))
}

func (m *metrics) register(reg prometheus.Registerer) error {
	if reg == nil {
		return nil
	}
	for i, c := range m.all {
		if err := reg.Register(c); err != nil {
			for _, done := range m.all[:i] {
				reg.Unregister(done)
			}
			return fmt.Errorf("register replica metrics: %w", err)
		}
	}
	return nil
}

func (m *metrics) unregister(reg prometheus.Registerer) {
	if reg == nil {
		return
	}
	for _, c := range m.all {
		reg.Unregister(c)
	}
}
