package limit

import (
	"crypto/sha256"
	"net/netip"
	"time"

	"github.com/maypok86/otter/v2"
)

// Guesses limits failed attempts to authenticate, by address and by the prefix of the
// credential. A client over the limit is refused before the credential is looked up,
// except with a credential that was valid recently: guesses from a network, or of a
// similar key, cannot lock its other users out. A success restores no attempts. Its
// methods may be called by many goroutines at once; nil allows everything.
//
// Passwords are limited by account as well, except from networks where the account's
// password was right recently: guesses from elsewhere cannot lock the owner out of these.
type Guesses struct {
	addresses *buckets[netip.Prefix]
	prefixes  *buckets[string]
	accounts  *buckets[[32]byte]
	codes     *buckets[[32]byte]
	good      *otter.Cache[[32]byte, time.Time] // since when
	places    *otter.Cache[[32]byte, struct{}]  // an account and a network
	now       func() time.Time
}

const (
	// PrefixLength is the length in bytes of the prefix that identifies a credential: as
	// much of an API key as may be shown.
	PrefixLength = 12
	// prefixShare multiplies the failures of an address for a prefix, because a prefix may
	// be guessed at from many addresses.
	prefixShare = 5
	// goodFor bounds the time for which a valid credential passes, within a minute.
	goodFor = time.Hour
	// goodAgain is the time between two writes that a credential was valid again, because a
	// write costs more than a look.
	goodAgain = time.Minute
	// placeFor is the time for which a network is exempt from the limit of an account that
	// signed in from it.
	placeFor = 30 * 24 * time.Hour
)

// NewGuesses allows an address perMinute failures a minute, and an account perMinute
// failures and perMinute wrong codes of its second factor an hour. It returns nil when
// perMinute is 0. Now is the clock; nil means time.Now.
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
		accounts:  newBuckets[[32]byte](float64(perMinute)/3600, perMinute, now),
		codes:     newBuckets[[32]byte](float64(perMinute)/3600, perMinute, now),
		places: otter.Must(&otter.Options[[32]byte, struct{}]{
			MaximumSize: maxBuckets, ExpiryCalculator: otter.ExpiryWriting[[32]byte, struct{}](placeFor),
		}),
		good: otter.Must(&otter.Options[[32]byte, time.Time]{
			MaximumSize: maxBuckets, ExpiryCalculator: otter.ExpiryWriting[[32]byte, time.Time](goodFor),
		}),
		now: since,
	}
}

// The limits that Check returns, and the limit of Attempt.
const (
	ByAddress = "address"
	ByPrefix  = "prefix"
	ByAccount = "account"
)

// Check returns "" when an attempt may be judged, otherwise the limit that forbids it and
// the time until the next attempt.
func (g *Guesses) Check(from netip.Addr, credential string) (by string, retry time.Duration) {
	if g == nil {
		return "", 0
	}
	if _, known := g.good.GetIfPresent(sha256.Sum256([]byte(credential))); known {
		return "", 0
	}
	if d := g.addresses.peekToken(Network(from)); !d.OK {
		return ByAddress, d.Retry
	}
	if credential == "" {
		return "", 0
	}
	if d := g.prefixes.peekToken(prefixOf(credential)); !d.OK {
		return ByPrefix, d.Retry
	}
	return "", 0
}

// Failed counts a failed attempt.
func (g *Guesses) Failed(from netip.Addr, credential string) {
	if g == nil {
		return
	}
	g.good.Invalidate(sha256.Sum256([]byte(credential)))
	g.addresses.takeToken(Network(from))
	if credential != "" {
		g.prefixes.takeToken(prefixOf(credential))
	}
}

// Succeeded remembers a valid credential.
func (g *Guesses) Succeeded(credential string) {
	if g == nil {
		return
	}
	hash, now := sha256.Sum256([]byte(credential)), g.now()
	if since, known := g.good.GetIfPresent(hash); !known || now.Sub(since) >= goodAgain {
		g.good.Set(hash, now)
	}
}

// Attempt counts an attempt at the password of an account, known or not, before the
// password is judged, so that simultaneous attempts do not exceed the limit. The caller
// calls giveBack when the attempt has not failed. Above the limit, retry is the time
// until the next attempt.
func (g *Guesses) Attempt(from netip.Addr, account string) (giveBack func(), retry time.Duration) {
	if g == nil || account == "" {
		return func() {}, 0
	}
	if _, exempt := g.places.GetIfPresent(place(from, account)); exempt {
		return func() {}, 0
	}
	return g.accounts.reserve(sha256.Sum256([]byte(account)))
}

// AttemptCode counts an attempt at a code of the second factor of an account, like
// Attempt, but exempts no network. The caller calls giveBack unless the code was wrong,
// which shows only after the password was right: other guesses do not lock the owner out.
func (g *Guesses) AttemptCode(account string) (giveBack func(), retry time.Duration) {
	if g == nil || account == "" {
		return func() {}, 0
	}
	return g.codes.reserve(sha256.Sum256([]byte(account)))
}

// SignedIn exempts a network from the limit of an account, after a right password.
func (g *Guesses) SignedIn(from netip.Addr, account string) {
	if g != nil && account != "" {
		g.places.Set(place(from, account), struct{}{})
	}
}

func place(from netip.Addr, account string) [32]byte {
	return sha256.Sum256([]byte(Network(from).String() + " " + account))
}

func prefixOf(credential string) string { return credential[:min(len(credential), PrefixLength)] }

// Around returns the network around an address, a /24 or a /48, because a client with
// many addresses has adjacent ones. Clients without an address share one network.
func Around(addr netip.Addr) netip.Prefix {
	one := Network(addr).Addr()
	bits := 24
	if one.Is6() {
		bits = 48
	}
	p, _ := one.Prefix(bits) // zero without an address
	return p
}

// Network returns the network that counts as one address: an IPv4 address, or the /64 of
// an IPv6 address, because one host has all of it.
func Network(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // shared by clients without an address
	}
	return p
}
