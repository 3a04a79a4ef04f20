package upstream

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// skip is why a miss was not asked for.
type skip int

const (
	stale       skip = iota // the replica is not known to be at the head
	custom                  // no generated code looks so
	neverIssued             // of a prefix of which no code was issued
	remembered              // it was unknown a moment ago
	limited                 // too many questions
	away                    // the control plane does not answer
	joined                  // it was being asked for already
	skips
)

var skipNames = [skips]string{"stale", "custom", "never_issued", "remembered", "limited", "away", "joined"}

// result is what came of a question.
type result int

const (
	found result = iota
	unknown
	failed
	results
)

var resultNames = [results]string{"found", "unknown", "failed"}

// stripes keeps misses that are counted at the same time off each other's cache lines.
const stripes = 16

type counters struct {
	skipped [skips]atomic.Uint64
	asked   [results]atomic.Uint64
	_       [128]byte
}

var (
	askedDesc = prometheus.NewDesc("waypost_upstream_questions_total",
		"Questions to the control plane for a link that is not in the replica, by result.", []string{"result"}, nil)
	skippedDesc = prometheus.NewDesc("waypost_upstream_skipped_total",
		"Misses for which the control plane was not asked, by reason.", []string{"reason"}, nil)
	heldDesc = prometheus.NewDesc("waypost_upstream_held",
		"Answers of the control plane that the replica has not come to yet.", nil, nil)
)

// collector tells the numbers to Prometheus.
type collector struct{ l *Links }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- askedDesc
	ch <- skippedDesc
	ch <- heldDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	var asked [results]uint64
	var skipped [skips]uint64
	for i := range c.l.count {
		n := &c.l.count[i]
		for j := range asked {
			asked[j] += n.asked[j].Load()
		}
		for j := range skipped {
			skipped[j] += n.skipped[j].Load()
		}
	}
	for j, n := range asked {
		ch <- prometheus.MustNewConstMetric(askedDesc, prometheus.CounterValue, float64(n), resultNames[j])
	}
	for j, n := range skipped {
		ch <- prometheus.MustNewConstMetric(skippedDesc, prometheus.CounterValue, float64(n), skipNames[j])
	}
	held := 0
	if h := c.l.held.Load(); h != nil {
		held = len(h.answers)
	}
	ch <- prometheus.MustNewConstMetric(heldDesc, prometheus.GaugeValue, float64(held))
}
