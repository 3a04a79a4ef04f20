package limit

import (
	"crypto/sha256"
	"net/netip"
	"time"

	"github.com/maypok86/otter/v2"
)

// Guesses bounds failed attempts to authenticate, by address and by what the
// credential begins with. Whoever is over the limit is refused before anybody looks the
// credential up, but for credentials that were good lately: nobody can shut others out by
// guessing from their network, or beside their key. A success gives nobody any
// attempts back. Its methods may be called by many goroutines at once; nil allows everything.
type Guesses struct {
	addresses *buckets[netip.Prefix]
	prefixes  *buckets[string]
	good      *otter.Cache[[32]byte, time.Time] // since when
	now       func() time.Time
}

const (
	// PrefixLength is what a credential is known by, in bytes: as much of an API key as
	// may be shown.
	PrefixLength = 12
	// prefixShare is how many times as many failures a prefix may have as an address:
	// it may be guessed at from many.
	prefixShare = 5
	// goodFor is how long a credential that was good is let through, a minute more or less.
	goodFor = time.Hour
	// goodAgain is how long it is not noted that it was good again, which costs more than
	// to look.
	goodAgain = time.Minute
)

// NewGuesses allows an address so many failures a minute. It is nil when that is 0.
// Now is the clock; nil means time.Now.
func NewGuesses(perMinute int, now func() time.Time) *Guesses {
	addresses := newBuckets[netip.Prefix](float64(perMinute)/60, perMinute, now)
	if addresses == nil {
		return nil
	}
	since := now
	if since == nil {
		since = time.Now
	}
	return &Guesses{
		addresses: addresses,
		prefixes:  newBuckets[string](float64(perMinute)*prefixShare/60, perMinute*prefixShare, now),
		good: otter.Must(&otter.Options[[32]byte, time.Time]{
			MaximumSize: maxBuckets, ExpiryCalculator: otter.ExpiryWriting[[32]byte, time.Time](goodFor),
		}),
		now: since,
	}
}

// Which limit was reached.
const (
	ByAddress = "address"
	ByPrefix  = "prefix"
)

// Check says whether an attempt may be judged at all, and otherwise by which limit
// not, and when again.
func (g *Guesses) Check(from netip.Addr, credential string) (by string, retry time.Duration) {
	if g == nil {
		return "", 0
	}
	if _, known := g.good.GetIfPresent(sha256.Sum256([]byte(credential))); known {
		return "", 0
	}
	if d := g.addresses.look(Network(from)); !d.OK {
		return ByAddress, d.Retry
	}
	if credential == "" {
		return "", 0
	}
	if d := g.prefixes.look(prefixOf(credential)); !d.OK {
		return ByPrefix, d.Retry
	}
	return "", 0
}

// Failed counts an attempt that was judged, and failed.
func (g *Guesses) Failed(from netip.Addr, credential string) {
	if g == nil {
		return
	}
	g.good.Invalidate(sha256.Sum256([]byte(credential)))
	g.addresses.take(Network(from))
	if credential != "" {
		g.prefixes.take(prefixOf(credential))
	}
}

// Succeeded remembers a credential that was good.
func (g *Guesses) Succeeded(credential string) {
	if g == nil {
		return
	}
	hash, now := sha256.Sum256([]byte(credential)), g.now()
	if since, known := g.good.GetIfPresent(hash); !known || now.Sub(since) >= goodAgain {
		g.good.Set(hash, now)
	}
}

func prefixOf(credential string) string { return credential[:min(len(credential), PrefixLength)] }

// Network is what counts as one address: an IPv4 address, or the /64 of an IPv6
// address, since a host has all of it.
func Network(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // of those who have none
	}
	return p
}
