//go:build linux

package openloop

import (
	"math"
	"slices"
	"time"
)

// Result holds the durations of a run's requests. One goroutine uses it.
type Result struct {
	waits  []time.Duration // from when a request was meant to be sent to its answer
	late   []time.Duration // from then to when it was sent
	took   time.Duration
	sorted bool
}

func (r *Result) sort() {
	if !r.sorted {
		slices.Sort(r.waits)
		slices.Sort(r.late)
		r.sorted = true
	}
}

// Requests is the number of requests, all of them answered.
func (r *Result) Requests() int { return len(r.waits) }

// Took is the time from the start to the last answer, of all runs together.
func (r *Result) Took() time.Duration { return r.took }

// Quantile is the time within which a part of the requests was answered, 0 < part
// <= 1, counted from when they were meant to be sent.
func (r *Result) Quantile(part float64) time.Duration {
	r.sort()
	return quantile(r.waits, part)
}

// Late is the part of that which passed before a request was sent: what the client
// itself, or waiting for a connection, took.
func (r *Result) Late(part float64) time.Duration {
	r.sort()
	return quantile(r.late, part)
}

// quantile is the smallest value that is not less than that part of all.
func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(part * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Add takes the requests of another run in.
func (r *Result) Add(other *Result) {
	r.waits, r.late = append(r.waits, other.waits...), append(r.late, other.late...)
	r.took += other.took
	r.sorted = false
}
