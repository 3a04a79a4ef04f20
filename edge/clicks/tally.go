package clicks

import (
	"math/rand/v2"
	"slices"

	"waypost"
	"waypost/api/clickbatch"
)

// tally gathers clicks by link, as many as one batch may have. A busy edge does this
// for every click, and has to answer redirects beside it: so it is a table of its own
// without pointers, which is emptied and used again, and sorts nothing.
type tally struct {
	faces faces
	links []tallied // in the order of their first clicks
	codes []byte    // theirs, one behind the other
	index []uint32  // entries where the hash of a link points, or behind
	hits  []hit
	seeds [2]uint64
	bytes int // of the batch, at most

	// What links gives, used again:
	out      []waypost.LinkClicks
	rows     []waypost.ClickRow
	who      []waypost.Visitor
	from, to []place
}

// hit is one click.
type hit struct {
	at      int64
	visitor uint64
	link    uint32
	profile uint32
}

const (
	maxHits       = 1 << 18
	maxTallyBytes = clickbatch.MaxBytes - 64<<10 // leaves room for the head

	// What a link without its code, a click, and its visitor take at most, in bytes.
	linkBytes    = 5 + 1 + 3 + 3 + 10
	rowBytes     = 10 + 3 + 3
	visitorBytes = 5 + 5
)

func newTally(a Audience) *tally {
	const links = 512
	return &tally{faces: newFaces(a), index: make([]uint32, 2*links), seeds: [2]uint64{rand.Uint64(), rand.Uint64()}}
}

// reset forgets all clicks, and keeps the memory.
func (t *tally) reset() {
	t.links, t.codes, t.hits, t.bytes = t.links[:0], t.codes[:0], t.hits[:0], 0
	t.faces.reset()
	clear(t.index)
}

// clicks is their number.
func (t *tally) clicks() uint64 { return uint64(len(t.hits)) }

// add takes the click that a scan gave; false when it would be one too many. What no batch may hold is passed over.
func (t *tally) add(c *record, from *scan) bool {
	if !waypost.ValidCode(c.Code) {
		return true
	}
	if len(t.hits) == maxHits || t.bytes+t.faces.profiles.bytes > maxTallyBytes-linkBytes-waypost.MaxCodeLength-rowBytes-visitorBytes {
		return false
	}
	profile, visitor, ok := t.faces.of(c, from)
	if !ok {
		return false
	}
	n, hash, ok := t.find(c.Domain, c.Code)
	if !ok {
		if len(t.links) == clickbatch.MaxLinks {
			return false
		}
		n = t.insert(c.Domain, c.Code, hash)
		t.links[n].last = c.At
		t.bytes += linkBytes + len(c.Code)
	}
	l := &t.links[n]
	l.hits++
	l.last = max(l.last, c.At)
	t.bytes += rowBytes + visitorBytes
	t.hits = append(t.hits, hit{c.At, visitor, uint32(n), profile})
	return true
}

// batch gives the clicks as a batch has them, in the order of the links when they are to
// be sorted. It is good until the next reset.
func (t *tally) batch(sorted bool) waypost.ClickBatch {
	t.spread()
	codes := string(t.codes)
	t.out = slices.Grow(t.out[:0], len(t.links))[:len(t.links)]
	if sorted {
		for i, p := range t.order() {
			t.put(i, int(p.n), codes)
		}
	} else {
		for i := range t.links {
			t.put(i, i, codes)
		}
	}
	return waypost.ClickBatch{Exact: true, Profiles: t.faces.profiles.list, Links: t.out}
}

// spread puts the clicks of each link together, one link behind the other.
func (t *tally) spread() {
	n := len(t.hits)
	t.rows, t.who = slices.Grow(t.rows[:0], n)[:n], slices.Grow(t.who[:0], n)[:n]
	next := uint32(0)
	for i := range t.links {
		l := &t.links[i]
		l.begin, l.rows, l.who = next, next, next
		next += l.hits
	}
	profiles := t.faces.profiles.list
	for i := range t.hits {
		h := &t.hits[i]
		l := &t.links[h.link]
		if k := l.rows; k > l.begin && t.rows[k-1].At == h.at && t.rows[k-1].Profile == h.profile {
			t.rows[k-1].Count++
		} else {
			t.rows[k] = waypost.ClickRow{At: h.at, Profile: h.profile, Count: 1}
			l.rows++
		}
		if h.visitor == 0 {
			continue
		}
		v := waypost.Visitor{Day: waypost.Day(h.at), Bot: profiles[h.profile].Bot, Hash: h.visitor & waypost.VisitorBits}
		if k := l.who; k == l.begin || t.who[k-1] != v {
			t.who[k] = v
			l.who++
		}
	}
}

// put makes link n the i-th of a batch.
func (t *tally) put(i, n int, codes string) {
	l := &t.links[n]
	who := t.who[l.begin:l.who:l.who]
	if len(who) > 1 {
		who = eachOnce(who)
	}
	t.out[i] = waypost.LinkClicks{
		Domain: l.domain, Code: waypost.Code(codes[l.at : l.at+uint32(l.length)]), Last: l.last,
		Rows: t.rows[l.begin:l.rows:l.rows], Visitors: who,
	}
}

// eachOnce puts visitors in order, and leaves out those that are there already.
func eachOnce(who []waypost.Visitor) []waypost.Visitor {
	slices.SortFunc(who, waypost.Visitor.Compare)
	return slices.Compact(who)
}
