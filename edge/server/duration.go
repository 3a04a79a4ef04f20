package server

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// timedEvery is the rate of sampling: one request in 16 is timed. To read the clock
// before and after takes 0.1 µs, a hundredth of the time of a redirect.
const timedEvery = 16

// durationBounds are the upper bounds of the histogram's buckets. Most requests take
// about ten microseconds. The alert RedirectsSlow uses the bound of half a second.
var durationBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond,
	100 * time.Millisecond, 500 * time.Millisecond, 2500 * time.Millisecond,
}

// durations is the histogram of the timed requests on the connections of a stripe.
type durations struct {
	counts [len(durationBounds) + 1]atomic.Uint64 // the last: beyond all bounds
	sum    atomic.Uint64                          // ns
}

// since counts a request that began at a time.
func (d *durations) since(began time.Time) {
	took := time.Since(began)
	i := 0
	for i < len(durationBounds) && took > durationBounds[i] {
		i++
	}
	d.counts[i].Add(1)
	d.sum.Add(uint64(max(took, 0)))
}

// isTimed reports whether to time the next request. Each connection begins to count at
// its own number: most have a single request, and if all began at 0, each would be timed.
func (c *conn) isTimed() bool { return c.requests%timedEvery == 0 }

var durationDesc = prometheus.NewDesc("waypost_redirect_duration_seconds",
	"Time from when a request was read until its answer was written, or given to fasthttp, of one request in 16.", nil, nil)

// duration adds up the histograms of all stripes.
func (m *metrics) duration() prometheus.Metric {
	var count, sum uint64
	buckets := make(map[float64]uint64, len(durationBounds))
	for i := range len(durationBounds) + 1 {
		for j := range m.stripes {
			count += m.stripes[j].durations.counts[i].Load()
		}
		if i < len(durationBounds) {
			buckets[durationBounds[i].Seconds()] = count
		}
	}
	for j := range m.stripes {
		sum += m.stripes[j].durations.sum.Load()
	}
	return prometheus.MustNewConstHistogram(durationDesc, count, float64(sum)/1e9, buckets)
}
