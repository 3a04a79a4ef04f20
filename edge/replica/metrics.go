package replica

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"

	"waypost/edge/lookup"
)

type metrics struct {
	all         []prometheus.Collector
	quarantined prometheus.Counter
	unreadable  prometheus.Counter
	poison      prometheus.Counter
	records     prometheus.Counter
	rounds      prometheus.Counter
	rotten      prometheus.Counter
	torn        prometheus.Counter
	repaired    prometheus.Counter
	undone      prometheus.Counter
	written     prometheus.Counter
	seconds     prometheus.Histogram
}

func newMetrics(db *DB) *metrics {
	m := &metrics{}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.all = append(m.all, c)
		return c
	}
	m.gauge("waypost_replica_records", "Records that the replica holds, tombstones included.", func() float64 {
		if st := db.serving.live.Load(); st != nil {
			return float64(st.applied.Load().records)
		}
		return 0
	})
	m.flag("waypost_replica_degraded", "1 while the replica serves reads but takes no changes.", func() bool { return db.Degraded() != nil })
	m.flag("waypost_replica_repairing", "1 while slots that differ from the source's are replaced; the replica serves.", db.Repairing)
	m.flag("waypost_replica_verifying", "1 after a start, until all records were added up and compared with the digest; the replica serves.", db.Verifying)
	m.flag("waypost_replica_disk_low", "1 while changes wait, because the disk is almost full.", func() bool { return db.disk.low() != nil })
	m.lookup(db)
	m.quarantined = counter("waypost_replica_quarantined_total", "Stores that could not be read and were quarantined.")
	m.unreadable = counter("waypost_replica_unreadable_total", "Reads of a link that failed or found a record that must not be served.")
	m.poison = counter("waypost_replica_poison_records_total", "Records applied that break the rules and are never served.")
	m.records = counter("waypost_replica_applied_records_total", "Records applied, by batches and by restores.")
	m.rounds = counter("waypost_replica_verified_rounds_total", "Times that all records on disk added up to the digest.")
	m.rotten = counter("waypost_replica_verify_failures_total", "Times that records on disk were found damaged or missing; a repair follows.")
	m.torn = counter("waypost_replica_torn_manifests_total", "Stores opened whose list of tables ended in a damaged record, so that their newest changes may be missing.")
	m.repaired = counter("waypost_replica_repaired_slots_total", "Slots replaced because they differed from the source's.")
	m.undone = counter("waypost_replica_undone_deletions_total", "Deleted links that came back in a repair, because PostgreSQL had been restored to before their deletion.")
	m.written = counter("waypost_replica_table_written_bytes_total", "Bytes of tables that flushes, compactions and restores have written.")
	m.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "waypost_replica_apply_seconds", Help: "Time to apply a batch.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
	})
	m.all = append(m.all, m.seconds)
	return m
}

func (m *metrics) gauge(name, help string, value func() float64) {
	m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// flag adds a gauge that is 1 while a condition is true.
func (m *metrics) flag(name, help string, is func() bool) {
	m.gauge(name, help, func() float64 {
		if is() {
			return 1
		}
		return 0
	})
}

// lookup adds the metrics of the lookup table.
func (m *metrics) lookup(db *DB) {
	stats := func() (s lookup.Stats) {
		if t := db.serving.table(); t != nil {
			s = t.Stats()
		}
		return s
	}
	m.gauge("waypost_replica_lookup_entries", "Links that the lookup table holds.", func() float64 { return float64(stats().Entries) })
	m.flag("waypost_replica_lookup_complete", "1 while the lookup table holds all links, so that none is read from disk.",
		func() bool { return stats().Complete })
	budget := func(name, help string, of func(*lookup.Budget) int64) {
		m.gauge(name, help, func() float64 {
			if db.filler.budget == nil {
				return 0
			}
			return float64(of(db.filler.budget))
		})
	}
	budget("waypost_replica_lookup_bytes", "Memory of the lookup table, outside of the Go heap. While a snapshot is installed there are two.",
		(*lookup.Budget).Used)
	budget("waypost_replica_lookup_budget_bytes", "Memory that the lookup table may have.", (*lookup.Budget).Limit)
	for i, c := range []prometheus.CounterOpts{
		{Name: "waypost_replica_lookup_hits_total", Help: "Links found in the lookup table."},
		{Name: "waypost_replica_lookup_misses_total", Help: "Codes that the lookup table knew to be no links."},
		{Name: "waypost_replica_lookup_fallbacks_total", Help: "Codes that were looked up in the store, because the lookup table could not tell."},
		{Name: "waypost_replica_lookup_damaged_total", Help: "Damaged records in the lookup table, which were not served."},
	} {
		m.all = append(m.all, prometheus.NewCounterFunc(c, func() float64 {
			n := db.serving.ended[i].Load()
			if t := db.serving.table(); t != nil {
				n += answers(t)[i]
			}
			return float64(n)
		}))
	}
}

// answers counts the answers of a table by kind: hits, misses, fallbacks, damaged.
func answers(t *lookup.Table) [4]uint64 {
	s := t.Stats()
	return [4]uint64{s.Hits, s.Absent, s.Unknown, s.Damaged}
}

// wrote counts the bytes of new tables.
func (m *metrics) wrote(tables []pebble.TableInfo) {
	for i := range tables {
		m.written.Add(float64(tables[i].Size))
	}
}

// taken counts the records that a writer has committed.
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
