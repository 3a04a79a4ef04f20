package server

import "github.com/prometheus/client_golang/prometheus"

// timedEvery is the rate of sampling: one request in 16 is timed. To read the clock
// before and after takes 0.1 µs, a hundredth of the time of a redirect.
const timedEvery = 16

// isTimed reports whether to time the next request. Each connection begins to count at
// its own number: most have a single request, and if all began at 0, each would be timed.
func (c *conn) isTimed() bool { return c.requests%timedEvery == 0 }

// newDurations makes the histogram of timed requests. Most take about ten microseconds.
// The alert RedirectsSlow uses the bound of half a second.
func newDurations() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "waypost_redirect_duration_seconds",
		Help:    "Time from when a request was read until its answer was written, or given to fasthttp, of one request in 16.",
		Buckets: []float64{50e-6, 100e-6, 250e-6, 1e-3, 5e-3, 25e-3, 0.1, 0.5, 2.5},
	})
}
