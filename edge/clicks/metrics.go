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

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	recordedDesc    = desc("waypost_clicks_recorded_total", "Clicks recorded in the journal.")
	droppedDesc     = desc("waypost_clicks_dropped_total", "Clicks that were redirected and not recorded: the journal or the disk was full.")
	batchesDesc     = desc("waypost_clicks_batches_total", "Batches of clicks fixed on the disk.")
	shippedDesc     = desc("waypost_clicks_shipped_total", "Clicks in batches that the control plane has acknowledged.")
	voidedDesc      = desc("waypost_clicks_voided_batches_total", "Empty batches sent in the place of those that the control plane has no record of.")
	resentDesc      = desc("waypost_clicks_resent_batches_total", "Acknowledged batches sent again because the control plane had no record of them any more.")
	deadDesc        = desc("waypost_clicks_dead_total", "Clicks in batches that the control plane will not count; the batches are in the directory dead.")
	tornDesc        = desc("waypost_clicks_torn_total", "Clicks cut off in the middle by a crash.")
	quarantinedDesc = desc("waypost_clicks_quarantined_files_total", "Files of the journal that could not be read and are in the directory quarantine.")
	diskErrorsDesc  = desc("waypost_clicks_disk_errors_total", "Reads, writes and syncs of the journal that failed.")
	failuresDesc    = desc("waypost_clicks_ship_failures_total", "Batches that were sent and neither acknowledged nor given up, by reason.", "reason")
	lostDesc        = desc("waypost_clicks_lost_total", "Clicks in unreadable files in the directory quarantine, as far as their number is known.")
	coarsenedDesc   = desc("waypost_clicks_coarsened_total", "Clicks that lost detail to make room while they waited, by the detail that is left; once for each loss.", "detail")
	waitingDesc     = desc("waypost_clicks_waiting", "Clicks in batches and compacted segments that wait to be acknowledged.")
	ageDesc         = desc("waypost_clicks_waiting_seconds", "Age of the oldest batch that waits to be acknowledged; 0 if there is none.")
	bytesDesc       = desc("waypost_clicks_journal_bytes", "Size of the journal's directory.")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		recordedDesc, droppedDesc, batchesDesc, shippedDesc, voidedDesc, resentDesc, deadDesc, tornDesc, quarantinedDesc,
		diskErrorsDesc, failuresDesc, lostDesc, coarsenedDesc, waitingDesc, ageDesc, bytesDesc,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	n := &c.j.counts
	used, err := c.j.dir.used()
	if err != nil {
		n.diskErrors.Add(1)
	}
	counter(recordedDesc, c.j.recorder.recorded())
	counter(droppedDesc, c.j.recorder.dropped.Load())
	counter(batchesDesc, n.batches.Load())
	counter(shippedDesc, n.shipped.Load())
	counter(voidedDesc, n.voided.Load())
	counter(resentDesc, n.resent.Load())
	counter(deadDesc, n.dead.Load())
	counter(tornDesc, n.torn.Load())
	counter(quarantinedDesc, n.quarantined.Load())
	counter(diskErrorsDesc, n.diskErrors.Load())
	counter(failuresDesc, n.refused.Load(), "refused")
	counter(failuresDesc, n.unavailable.Load(), "unavailable")
	counter(failuresDesc, n.unanswered.Load(), "unanswered")
	counter(lostDesc, n.lost.Load())
	counter(coarsenedDesc, n.coarsened[quarterGrade].Load(), "quarters")
	counter(coarsenedDesc, n.coarsened[totalGrade].Load(), "totals")
	waiting, age := c.j.catalog.waiting(time.Now())
	gauge(waitingDesc, float64(waiting))
	gauge(ageDesc, age.Seconds())
	if err != nil {
		ch <- prometheus.NewInvalidMetric(bytesDesc, err)
	} else {
		gauge(bytesDesc, float64(used))
	}
}
