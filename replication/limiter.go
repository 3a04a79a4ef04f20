package replication

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// limiter bounds how many requests of one kind read slots at the same time. A request
// that finds no token free is refused, and its follower asks again after Retry-After.
type limiter struct {
	tokens  chan struct{}
	refused atomic.Int64 // requests since the start
	metrics limiterMetrics
}

type limiterMetrics struct {
	running prometheus.Gauge
	refused prometheus.Counter
}

func newLimiter(limit int, metrics limiterMetrics) *limiter {
	return &limiter{tokens: make(chan struct{}, limit), metrics: metrics}
}

// turn is a token that a request holds. One goroutine uses it.
type turn struct {
	limiter *limiter
	began   time.Time
	refused int64 // requests that had been refused by then
}

// enter takes a token, or returns false when none is free. A request that has one calls
// leave.
func (l *limiter) enter() (*turn, bool) {
	select {
	case l.tokens <- struct{}{}:
		l.metrics.running.Inc()
		return &turn{limiter: l, began: time.Now(), refused: l.refused.Load()}, true
	default:
		l.refused.Add(1)
		l.metrics.refused.Inc()
		return nil, false
	}
}

// leave frees the token.
func (t *turn) leave() {
	<-t.limiter.tokens
	t.limiter.metrics.running.Dec()
}

// over reports whether the turn has lasted longer than limit and others were refused
// since it began.
func (t *turn) over(limit time.Duration) bool {
	return time.Since(t.began) > limit && t.limiter.refused.Load() > t.refused
}

// busy reports whether a request would be refused now.
func (l *limiter) busy() bool { return len(l.tokens) == cap(l.tokens) }
