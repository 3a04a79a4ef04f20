package httpapi

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waypost/controlplane"
)

// ingestMetrics tells how batches of clicks fare. A batch that is sent again is
// counted again here, its clicks are not.
type ingestMetrics struct {
	batches  *prometheus.CounterVec
	clicks   *prometheus.CounterVec
	redated  prometheus.Counter
	dropped  prometheus.Counter
	duration prometheus.Histogram
}

func newIngestMetrics(r prometheus.Registerer) ingestMetrics {
	f := promauto.With(r)
	m := ingestMetrics{
		batches: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_click_batches_total",
			Help: "Batches of clicks that edges have sent, by what became of them.",
		}, []string{"outcome"}),
		clicks: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_clicks_ingested_total",
			Help: "Clicks that were counted, for links or for codes that name no link.",
		}, []string{"of"}),
		redated: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_clicks_redated_total",
			Help: "Clicks that count at the time of receipt, because theirs was impossible.",
		}),
		dropped: f.NewCounter(prometheus.CounterOpts{
			Name: "waypost_clicks_reported_dropped_total",
			Help: "Clicks that edges had no room for, as they report; they are counted nowhere else.",
		}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "waypost_click_batch_duration_seconds",
			Help:    "Time from a batch's headers to the end of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25},
		}),
	}
	// What has not happened yet is zero, so that an alert can tell a first time.
	for _, outcome := range []string{"taken", "void", "gap", "dead-letter", "refused", "failed"} {
		m.batches.WithLabelValues(outcome)
	}
	for _, of := range []string{"links", "unknown"} {
		m.clicks.WithLabelValues(of)
	}
	return m
}

func (m *ingestMetrics) observe(outcome string, r controlplane.ClickReceipt, took time.Duration) {
	m.batches.WithLabelValues(outcome).Inc()
	m.clicks.WithLabelValues("links").Add(float64(r.Clicks))
	m.clicks.WithLabelValues("unknown").Add(float64(r.Unknown))
	m.redated.Add(float64(r.Redated))
	m.dropped.Add(float64(r.Dropped))
	m.duration.Observe(took.Seconds())
}
