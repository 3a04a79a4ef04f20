package clicks

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are the events since the journal was opened. The shards count recorded clicks.
type counts struct {
	batches, shipped, voided, dead   atomic.Uint64
	resent                           atomic.Uint64
	torn, quarantined, diskErrors    atomic.Uint64
	lost                             atomic.Uint64                 // in compacted segments that cannot be read
	coarsened                        [totalGrade + 1]atomic.Uint64 // by their new grade
	refused, unavailable, unanswered atomic.Uint64
}

// collector exports a journal's numbers to Prometheus.
type collector struct{ j *Journal }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, v float64, label ...string) { // a label: its name and value
		d := prometheus.NewDesc(name, help, label[:len(label)/2], nil)
		ch <- prometheus.MustNewConstMetric(d, kind, v, label[len(label)/2:]...)
	}
	counter := func(name, help string, n uint64, label ...string) {
		send(prometheus.CounterValue, name, help, float64(n), label...)
	}
	n := &c.j.counts
	counter("waypost_clicks_recorded_total", "Clicks recorded in the journal.", c.j.recorder.recorded())
	counter("waypost_clicks_dropped_total", "Clicks that were redirected and not recorded: the journal or the disk was full.", c.j.recorder.dropped.Load())
	counter("waypost_clicks_batches_total", "Batches of clicks fixed on the disk.", n.batches.Load())
	counter("waypost_clicks_shipped_total", "Clicks in batches that the control plane has acknowledged.", n.shipped.Load())
	counter("waypost_clicks_voided_batches_total", "Empty batches sent in the place of those that the control plane has no record of.", n.voided.Load())
	counter("waypost_clicks_resent_batches_total", "Acknowledged batches sent again because the control plane had no record of them any more.", n.resent.Load())
	counter("waypost_clicks_dead_total", "Clicks in batches that the control plane will not count; the batches are in the directory dead.", n.dead.Load())
	counter("waypost_clicks_torn_total", "Clicks cut off in the middle by a crash.", n.torn.Load())
	counter("waypost_clicks_quarantined_files_total", "Files of the journal that could not be read and are in the directory quarantine.", n.quarantined.Load())
	counter("waypost_clicks_lost_total", "Clicks in unreadable files in the directory quarantine, as far as their number is known.", n.lost.Load())
	const failures = "Batches that were sent and neither acknowledged nor given up, by reason."
	counter("waypost_clicks_ship_failures_total", failures, n.refused.Load(), "reason", "refused")
	counter("waypost_clicks_ship_failures_total", failures, n.unavailable.Load(), "reason", "unavailable")
	counter("waypost_clicks_ship_failures_total", failures, n.unanswered.Load(), "reason", "unanswered")
	const coarsened = "Clicks that lost detail to make room while they waited, by the detail that is left; once for each loss."
	counter("waypost_clicks_coarsened_total", coarsened, n.coarsened[quarterGrade].Load(), "detail", "quarters")
	counter("waypost_clicks_coarsened_total", coarsened, n.coarsened[totalGrade].Load(), "detail", "totals")
	waiting, age := c.j.catalog.waiting(time.Now())
	send(prometheus.GaugeValue, "waypost_clicks_waiting", "Clicks in batches and compacted segments that wait to be acknowledged.", float64(waiting))
	send(prometheus.GaugeValue, "waypost_clicks_waiting_seconds", "Age of the oldest batch that waits to be acknowledged; 0 if there is none.", age.Seconds())
	used, err := c.j.dir.used()
	if err == nil {
		send(prometheus.GaugeValue, "waypost_clicks_journal_bytes", "Size of the journal's directory.", float64(used))
	} else {
		n.diskErrors.Add(1)
		ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("waypost_clicks_journal_bytes", "Size of the journal's directory.", nil, nil), err)
	}
	counter("waypost_clicks_disk_errors_total", "Reads, writes and syncs of the journal that failed.", n.diskErrors.Load())
}
