package server

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"waypost"
)

// Limits on wrong passwords of a link, and on all passwords of neighbours, on this edge.
// A network is an IPv4 address or the /64 of an IPv6 one; neighbours share a /24 or /48.
const (
	guessesOfNetwork   = 10 // at once, and then one a minute
	guessesOfLink      = 100
	hashesOfNeighbours = 100
	networkAgain       = time.Minute
	linkAgain          = 10 * time.Second
	neighboursAgain    = time.Second / 2
	guessBuckets       = 4096
)

// guesses limits wrong passwords by link and network, and by link, and all passwords by
// neighbours, right ones included. Its size is fixed: links and networks share buckets by
// a keyed hash, so that a stranger can only make the limit of another one stricter by
// chance. A network over its limit takes nothing from the limit of the link.
type guesses struct {
	seed maphash.Seed
	now  func() time.Time

	mu         sync.Mutex
	networks   [guessBuckets]leaky
	links      [guessBuckets]leaky
	neighbours [guessBuckets]leaky
}

// leaky is a bucket of attempts, which empties with time.
type leaky struct {
	level float32
	at    int64 // Unix milliseconds of the level
}

func newGuesses(now func() time.Time) *guesses {
	return &guesses{seed: maphash.MakeSeed(), now: now}
}

// attempt holds the buckets that an attempt was counted in.
type attempt struct{ network, link, neighbours *leaky }

// countAttempt counts an attempt before it is judged, so that simultaneous ones do not
// exceed the limits. Above them, retry is the time until the next attempt. The work of an
// attempt counts among the hashes of neighbours.
func (g *guesses) countAttempt(domain waypost.DomainID, code []byte, from netip.Addr, work float32) (a attempt, retry time.Duration) {
	var h maphash.Hash
	h.SetSeed(g.seed)
	var number [4]byte
	binary.LittleEndian.PutUint32(number[:], uint32(domain))
	_, _ = h.Write(number[:])
	_, _ = h.Write(code)
	a.link = &g.links[h.Sum64()%guessBuckets]
	_ = h.WriteByte('/')
	address, around := from.As16(), 15
	if from.Unmap().Is6() {
		clear(address[8:])
		around = 6
	}
	_, _ = h.Write(address[:])
	a.network = &g.networks[h.Sum64()%guessBuckets]
	h.Reset()
	_, _ = h.Write(address[:around])
	a.neighbours = &g.neighbours[h.Sum64()%guessBuckets]

	at := g.now().UnixMilli()
	g.mu.Lock()
	defer g.mu.Unlock()
	if retry = a.network.full(at, guessesOfNetwork, networkAgain); retry > 0 {
		return attempt{}, retry
	}
	if retry = a.link.full(at, guessesOfLink, linkAgain); retry > 0 {
		return attempt{}, retry
	}
	if retry = a.neighbours.full(at, hashesOfNeighbours+1-work, neighboursAgain); retry > 0 {
		return attempt{}, retry
	}
	a.network.level++
	a.link.level++
	a.neighbours.level += work
	return a, 0
}

// giveBack uncounts an attempt, or its work, in some of its buckets.
func (g *guesses) giveBack(n float32, buckets ...*leaky) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range buckets {
		l.level = max(l.level-n, 0)
	}
}

// full brings the level of a bucket up to date, and returns 0 if it has room for one
// more, or the time until it has.
func (l *leaky) full(at int64, most float32, again time.Duration) time.Duration {
	l.level = max(l.level-float32(max(at-l.at, 0))/float32(again.Milliseconds()), 0)
	l.at = at
	if over := l.level + 1 - most; over > 0 {
		return time.Duration(float64(over)*float64(again)) + 1
	}
	return 0
}
