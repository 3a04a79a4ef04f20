package replication

import "github.com/prometheus/client_golang/prometheus"

// limiter bounds how many requests of one kind read slots at the same time. A request
// that finds no token free is refused, and its follower asks again after Retry-After.
type limiter struct {
	tokens  chan struct{}
	metrics limiterMetrics
}

type limiterMetrics struct {
	running prometheus.Gauge
	refused prometheus.Counter
}

func newLimiter(limit int, metrics limiterMetrics) *limiter {
	return &limiter{tokens: make(chan struct{}, limit), metrics: metrics}
}

// enter takes a token, or returns false when no token is free. A request that has one
// calls leave.
func (l *limiter) enter() bool {
	select {
	case l.tokens <- struct{}{}:
		l.metrics.running.Inc()
		return true
	default:
		l.metrics.refused.Inc()
		return false
	}
}

// leave frees a token.
func (l *limiter) leave() {
	<-l.tokens
	l.metrics.running.Dec()
}

// busy reports whether a request would be refused now.
func (l *limiter) busy() bool { return len(l.tokens) == cap(l.tokens) }
