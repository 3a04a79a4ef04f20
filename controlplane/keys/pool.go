package keys

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeDeadline bounds the query of a scrape.
const scrapeDeadline = time.Second

// Pool collects metrics: how all regions stand for keys. While the database is out of
// reach it collects nothing, so that no alert points to the wrong cause.
type Pool struct{ Store RangeStore }

var (
	poolSize      = prometheus.NewDesc("kgs_pool_size", "Unissued counters of the region's live ranges.", []string{"region"}, nil)
	poolMinutes   = prometheus.NewDesc("kgs_pool_exhaustion_minutes", "Time in which the region's pool is used up at the rate of the last hour; +Inf while nothing is issued.", []string{"region"}, nil)
	freePrefixes  = prometheus.NewDesc("kgs_free_prefixes", "Prefixes that were never used. A region that runs low takes one.", nil, nil)
	keyPrefixSize = prometheus.NewDesc("kgs_prefix_size", "Counters in a prefix.", nil, nil)
	keysHeld      = prometheus.NewDesc("waypost_keys_held", "1 while no key is issued until an operator runs 'waypost ranges resume'.", nil, nil)
)

func (p Pool) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolSize, poolMinutes, freePrefixes, keyPrefixSize, keysHeld} {
		ch <- d
	}
}

func (p Pool) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeDeadline)
	defer cancel()
	space, err := p.Store.KeySpace(ctx)
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, s := range space.Supplies() {
		gauge(poolSize, float64(s.Unissued), s.Region)
		minutes := math.Inf(1)
		if s.MinutesLeft != nil {
			minutes = *s.MinutesLeft
		}
		gauge(poolMinutes, minutes, s.Region)
	}
	gauge(freePrefixes, float64(space.FreePrefixes))
	gauge(keyPrefixSize, float64(space.PrefixSize))
	held := 0.0
	if space.Held != "" {
		held = 1
	}
	gauge(keysHeld, held)
}
