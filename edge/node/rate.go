package node

import (
	"sync"
	"time"
)

// rate measures how fast a counter grows, over about the last ten seconds. It looks at
// the counter when it is asked for the rate, and costs the counting nothing.
type rate struct {
	count func() uint64

	mu   sync.Mutex
	seen []count // oldest first, at least half a second apart
}

// count is the value of a counter at a time.
type count struct {
	at time.Time
	n  uint64
}

const (
	rateSpan = 10 * time.Second
	rateStep = 500 * time.Millisecond
)

// start begins at a counter's present value.
func (r *rate) start(counter func() uint64, now time.Time) {
	r.count, r.seen = counter, []count{{now, counter()}}
}

// perSecond returns the rate. Its first second counts as a whole one.
func (r *rate) perSecond(now time.Time) float64 {
	if r.count == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.count()
	for len(r.seen) > 1 && now.Sub(r.seen[1].at) >= rateSpan {
		r.seen = r.seen[1:]
	}
	first, last := r.seen[0], r.seen[len(r.seen)-1]
	if now.Sub(last.at) >= rateStep {
		r.seen = append(r.seen, count{now, n})
	}
	return float64(n-first.n) / max(now.Sub(first.at), time.Second).Seconds()
}
