// Package limit bounds how often somebody may ask, and how often somebody may
// guess. It keeps its counts in memory, of this process alone, and bounded: it knows no
// HTTP, and nothing of who has a right to what.
package limit

import (
	"math"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// maxBuckets bounds the buckets of one kind; each takes some 200 bytes. Of those who
// come but once, most are forgotten first, so that a flood of names does not wash
// away the counts of one who comes again and again.
const maxBuckets = 100_000

// Decision is what a bucket says.
type Decision struct {
	OK        bool
	Limit     int           // requests that a full bucket allows
	Remaining int           // of them, now
	Reset     time.Duration // until the bucket is full again
	Retry     time.Duration // until the next request is allowed; 0 when it is
}

// buckets are token buckets by name. Nil: nothing is limited.
type buckets[K comparable] struct {
	rate  rate.Limit // tokens a second
	burst int
	now   func() time.Time
	known *otter.Cache[K, *rate.Limiter]
}

func newBuckets[K comparable](perSecond float64, burst int, now func() time.Time) *buckets[K] {
	if perSecond <= 0 || burst <= 0 {
		return nil
	}
	var forgets otter.Clock
	if now == nil {
		now = time.Now
	} else {
		forgets = ticking(now)
	}
	// A bucket that nobody has touched for so long is full, as a new one is.
	full := time.Duration(math.Ceil(float64(burst)/perSecond)+1) * time.Second
	return &buckets[K]{
		rate: rate.Limit(perSecond), burst: burst, now: now,
		known: otter.Must(&otter.Options[K, *rate.Limiter]{
			MaximumSize: maxBuckets, ExpiryCalculator: otter.ExpiryAccessing[K, *rate.Limiter](full), Clock: forgets,
		}),
	}
}

// ticking is a clock by which buckets are also forgotten.
type ticking func() time.Time

func (c ticking) NowNano() int64                      { return c().UnixNano() }
func (c ticking) Tick(time.Duration) <-chan time.Time { return nil }

func (b *buckets[K]) of(key K) *rate.Limiter {
	l, _ := b.known.ComputeIfAbsent(key, func() (*rate.Limiter, bool) { return rate.NewLimiter(b.rate, b.burst), false })
	return l
}

// take uses up a token, if there is one.
func (b *buckets[K]) take(key K) Decision {
	l, now := b.of(key), b.now()
	d := b.decide(l, now, l.AllowN(now, 1))
	return d
}

// look tells what take would say, and takes nothing.
func (b *buckets[K]) look(key K) Decision {
	now := b.now()
	l, ok := b.known.GetIfPresent(key)
	if !ok {
		return Decision{OK: true, Limit: b.burst, Remaining: b.burst}
	}
	return b.decide(l, now, l.TokensAt(now) >= 1)
}

// owe uses up n tokens, also those to come.
func (b *buckets[K]) owe(key K, n int) {
	b.of(key).ReserveN(b.now(), min(n, b.burst))
}

func (b *buckets[K]) decide(l *rate.Limiter, now time.Time, ok bool) Decision {
	tokens := l.TokensAt(now)
	seconds := func(tokens float64) time.Duration {
		return time.Duration(math.Ceil(tokens/float64(b.rate))) * time.Second
	}
	d := Decision{OK: ok, Limit: b.burst, Remaining: max(0, int(tokens)), Reset: seconds(float64(b.burst) - tokens)}
	if !ok {
		d.Retry = max(time.Second, seconds(1-tokens))
	}
	return d
}
