// Package limit bounds how often a client may ask, and how often it may guess. It keeps
// bounded counts in the memory of this process. It knows nothing of HTTP or of rights.
package limit

import (
	"crypto/sha256"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// maxBuckets bounds the buckets of one kind; each takes about 200 bytes. The cache evicts
// buckets that were used only once first, so that a flood of names does not evict the
// count of a frequent client.
const maxBuckets = 100_000

// Decision is the answer of a bucket.
type Decision struct {
	OK        bool
	Limit     int           // requests that a full bucket allows
	Remaining int           // of them, now
	Reset     time.Duration // until the bucket is full again
	Retry     time.Duration // until the next request is allowed; 0 when it is
}

// buckets holds token buckets by name. A nil *buckets limits nothing.
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
	// After that time an unused bucket is full, like a new one.
	full := time.Duration(math.Ceil(float64(burst)/perSecond)+1) * time.Second
	return &buckets[K]{
		rate: rate.Limit(perSecond), burst: burst, now: now,
		known: otter.Must(&otter.Options[K, *rate.Limiter]{
			MaximumSize: maxBuckets, ExpiryCalculator: otter.ExpiryAccessing[K, *rate.Limiter](full), Clock: forgets,
		}),
	}
}

// ticking is the clock of the cache, so that tests control when buckets expire.
type ticking func() time.Time

func (c ticking) NowNano() int64 { return c().UnixNano() }

func (c ticking) Tick(time.Duration) <-chan time.Time { return nil }

func (b *buckets[K]) of(key K) *rate.Limiter {
	l, _ := b.known.ComputeIfAbsent(key, func() (*rate.Limiter, bool) { return rate.NewLimiter(b.rate, b.burst), false })
	return l
}

// takeToken takes a token, if there is one.
func (b *buckets[K]) takeToken(key K) Decision {
	l, now := b.of(key), b.now()
	d := b.decide(l, now, l.AllowN(now, 1))
	return d
}

// peekToken returns the answer of takeToken without taking a token.
func (b *buckets[K]) peekToken(key K) Decision {
	now := b.now()
	l, ok := b.known.GetIfPresent(key)
	if !ok {
		return Decision{OK: true, Limit: b.burst, Remaining: b.burst}
	}
	return b.decide(l, now, l.TokensAt(now) >= 1)
}

// reserve takes a token, which giveBack restores. Without a token, retry is the time
// until the next one, otherwise 0.
func (b *buckets[K]) reserve(key K) (giveBack func(), retry time.Duration) {
	l, now := b.of(key), b.now()
	r := l.ReserveN(now, 1)
	if r.DelayFrom(now) > 0 {
		r.CancelAt(now)
		return func() {}, b.decide(l, now, false).Retry
	}
	return func() { r.CancelAt(now) }, 0
}

// owe takes n tokens, future ones if needed.
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

// Requests limits the requests of a credential, or of a workspace. Its methods may be
// called by many goroutines at once; nil allows everything.
type Requests struct{ by *buckets[[32]byte] }

// NewRequests allows perSecond requests a second, and bursts of burst. It returns nil
// when either is 0. Now is the clock; nil means time.Now.
func NewRequests(perSecond, burst int, now func() time.Time) *Requests {
	by := newBuckets[[32]byte](float64(perSecond), burst, now)
	if by == nil {
		return nil
	}
	return &Requests{by}
}

// Take counts a request of a credential. It stores only a hash of the credential. The
// second result is false when nothing is limited.
func (r *Requests) Take(credential string) (Decision, bool) {
	if r == nil {
		return Decision{OK: true}, false
	}
	return r.by.takeToken(sha256.Sum256([]byte(credential))), true
}

// Owe counts n more requests, for a request that turned out to be large.
func (r *Requests) Owe(credential string, n int) {
	if r != nil && n > 0 {
		r.by.owe(sha256.Sum256([]byte(credential)), n)
	}
}
