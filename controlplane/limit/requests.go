package limit

import (
	"crypto/sha256"
	"time"
)

// Requests bounds what one credential may ask for. Its methods may be called by many
// goroutines at once; nil allows everything.
type Requests struct{ by *buckets[[32]byte] }

// NewRequests allows so many requests a second, and a burst of so many. It is nil
// when either is 0. Now is the clock; nil means time.Now.
func NewRequests(perSecond, burst int, now func() time.Time) *Requests {
	by := newBuckets[[32]byte](float64(perSecond), burst, now)
	if by == nil {
		return nil
	}
	return &Requests{by}
}

// Take counts a request of a credential, which is remembered as a hash only. The
// second result is false when nothing is limited.
func (r *Requests) Take(credential string) (Decision, bool) {
	if r == nil {
		return Decision{OK: true}, false
	}
	return r.by.take(sha256.Sum256([]byte(credential))), true
}

// Owe counts so many requests more, for one that turned out to be large.
func (r *Requests) Owe(credential string, n int) {
	if r != nil && n > 0 {
		r.by.owe(sha256.Sum256([]byte(credential)), n)
	}
}
