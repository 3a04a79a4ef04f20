package budgets

import (
	"sync"
	"time"
)

// roundTrip estimates how long a question takes until its clicks can be spent.
type roundTrip struct {
	mu              sync.Mutex
	mean, deviation time.Duration // 0: nothing was measured
}

// measure takes a duration into the estimate, as TCP does (RFC 6298, section 2).
func (r *roundTrip) measure(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mean == 0 {
		r.mean, r.deviation = took, took/2
		return
	}
	r.deviation += ((r.mean - took).Abs() - r.deviation) / 4
	r.mean += (took - r.mean) / 8
}

// patience returns how long a visitor waits: for the rest of a question under way, for
// the question after that, and as long again where it takes longer, most at most. Half of
// most is for a control plane that is suddenly slower than it was.
func (r *roundTrip) patience(most time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mean == 0 {
		return most
	}
	return min(most, most/2+3*(r.mean+4*r.deviation))
}
