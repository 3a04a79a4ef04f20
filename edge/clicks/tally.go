package clicks

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"unsafe"

	"waypost"
	"waypost/api/clickbatch"
	"waypost/internal/pacer"
)

// tally gathers clicks by link, as many as one batch may have. A busy edge does this for
// every click, on the same processors as redirects. So it is a table without pointers,
// which is emptied and reused, and sorts as little as possible.
type tally struct {
	pace  *pacer.Pacer
	cache profileCache
	links []tallied // in the order of their first clicks
	codes []byte    // theirs, one behind the other
	index []uint32  // entries where the hash of a link points, or after
	hits  []hit
	seeds [2]uint64
	bytes int // of the batch, at most

	// The memory of batch:
	out  []waypost.LinkClicks
	rows []waypost.ClickRow
	who  []waypost.Visitor
	keys []sortKey
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

	// A link without its code, a click, and its visitor take at most that many bytes.
	linkBytes    = 5 + 1 + 3 + 3 + 10
	rowBytes     = 10 + 3 + 3
	visitorBytes = 5 + 5
)

func newTally(with Profiler, p *pacer.Pacer) *tally {
	const links = 512
	return &tally{pace: p, cache: newProfileCache(with), index: make([]uint32, 2*links), seeds: [2]uint64{rand.Uint64(), rand.Uint64()}}
}

// reset forgets all clicks, and keeps the memory.
func (t *tally) reset() {
	t.links, t.codes, t.hits, t.bytes = t.links[:0], t.codes[:0], t.hits[:0], 0
	t.cache.reset()
	clear(t.index)
}

// clicks counts them.
func (t *tally) clicks() uint64 { return uint64(len(t.hits)) }

// addClick takes the current click of a scan; false if it would be one too many. It skips
// clicks that no batch may hold.
func (t *tally) addClick(c *record, from *scan) bool {
	if !waypost.ValidCode(c.Code) {
		return true
	}
	if len(t.hits) == maxHits || t.bytes+t.cache.profiles.bytes > maxTallyBytes-linkBytes-waypost.MaxCodeLength-rowBytes-visitorBytes {
		return false
	}
	profile, visitor, ok := t.cache.of(c, from)
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

// batch returns the clicks as a batch, which is valid until the next reset. Sorted puts
// the links in order.
func (t *tally) batch(sorted bool) waypost.ClickBatch {
	t.spread()
	codes := unsafe.String(unsafe.SliceData(t.codes), len(t.codes)) // valid as long as the batch
	t.out = slices.Grow(t.out[:0], len(t.links))[:len(t.links)]
	if sorted {
		for i, p := range t.order() {
			t.put(i, int(p.n), codes)
			t.pace.Step()
		}
	} else {
		for i := range t.links {
			t.put(i, i, codes)
			t.pace.Step()
		}
	}
	return waypost.ClickBatch{Exact: true, Profiles: t.cache.profiles.list, Links: t.out}
}

// spread puts the clicks of each link together, one link after the other.
func (t *tally) spread() {
	n := len(t.hits)
	t.rows, t.who = slices.Grow(t.rows[:0], n)[:n], slices.Grow(t.who[:0], n)[:n]
	next := uint32(0)
	for i := range t.links {
		l := &t.links[i]
		l.begin, l.rows, l.who = next, next, next
		next += l.hits
	}
	profiles := t.cache.profiles.list
	for i := range t.hits {
		t.pace.Step()
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
	who := eachOnce(t.pace, t.who[l.begin:l.who:l.who])
	t.out[i] = waypost.LinkClicks{
		Domain: l.domain, Code: waypost.Code(codes[l.at : l.at+uint32(l.length)]), Last: l.last,
		Rows: t.rows[l.begin:l.rows:l.rows], Visitors: who,
	}
}

// eachOnce puts visitors in order, and leaves out duplicates.
func eachOnce(p *pacer.Pacer, who []waypost.Visitor) []waypost.Visitor {
	sortPaced(p, who, waypost.Visitor.Compare)
	return slices.Compact(who)
}

// sortPaced sorts s, and pauses now and then.
func sortPaced[T any](p *pacer.Pacer, s []T, compare func(a, b T) int) {
	slices.SortFunc(s, func(a, b T) int {
		p.Step()
		return compare(a, b)
	})
}

// tallied is one link of a tally.
type tallied struct {
	prefix uint64 // the code's first 8 bytes as a number, which compares like them
	at     uint32 // where the code is
	domain waypost.DomainID
	last   int64
	hits   uint32
	begin  uint32 // where its rows and visitors begin
	rows   uint32 // where the next of its rows goes
	who    uint32 // where the next of its visitors goes
	length uint8
}

// prefixLength is the number of bytes of a code in a tallied itself.
const prefixLength = 8

func prefixOf(code []byte) uint64 {
	if len(code) >= prefixLength {
		return binary.BigEndian.Uint64(code)
	}
	var padded [prefixLength]byte
	copy(padded[:], code)
	return binary.BigEndian.Uint64(padded[:])
}

// hash is unpredictable, so that an attacker cannot choose codes that collide.
func (t *tally) hash(prefix uint64, domain waypost.DomainID, rest []byte) uint64 {
	hi, lo := bits.Mul64(prefix^t.seeds[0], uint64(domain)^t.seeds[1])
	for ; len(rest) > 0; rest = rest[min(prefixLength, len(rest)):] {
		hi, lo = bits.Mul64(prefixOf(rest)^hi^lo^t.seeds[0], uint64(len(rest))^t.seeds[1])
	}
	return hi ^ lo
}

func restOf(code []byte) []byte { return code[min(prefixLength, len(code)):] }

// An entry of the index is 0, or the number of a link + 1 in its lower bits and a part of
// the link's hash above. The hash avoids looking at other links, because each look would
// miss the processor's cache.
const (
	numberBits = 17 // clickbatch.MaxLinks is 1<<16
	numberMask = 1<<numberBits - 1
)

func entryOf(hash uint64, number int) uint32 {
	return uint32(hash>>32)&^numberMask | uint32(number)
}

// find returns the number of a link, if the tally has it, and its hash.
func (t *tally) find(domain waypost.DomainID, code []byte) (number int, hash uint64, ok bool) {
	prefix, rest, mask := prefixOf(code), restOf(code), uint64(len(t.index)-1)
	hash = t.hash(prefix, domain, rest)
	upper := entryOf(hash, 0)
	for h := hash; ; h++ {
		entry := t.index[h&mask]
		if entry == 0 {
			return 0, hash, false
		}
		if entry&^numberMask != upper {
			continue
		}
		number = int(entry&numberMask) - 1
		e := &t.links[number]
		if e.prefix == prefix && e.domain == domain && int(e.length) == len(code) && bytes.Equal(t.restOf(e), rest) {
			return number, hash, true
		}
	}
}

// code and restOf return the bytes of a link.
func (t *tally) code(e *tallied) []byte   { return t.codes[e.at : e.at+uint32(e.length)] }
func (t *tally) restOf(e *tallied) []byte { return restOf(t.code(e)) }

// insert adds a link that the tally does not have, and returns its number.
func (t *tally) insert(domain waypost.DomainID, code []byte, hash uint64) int {
	t.links = append(t.links, tallied{prefix: prefixOf(code), at: uint32(len(t.codes)), domain: domain, length: uint8(len(code))})
	t.codes = append(t.codes, code...)
	if 2*len(t.links) > len(t.index) {
		t.index = make([]uint32, 2*len(t.index))
		for i := range t.links {
			e := &t.links[i]
			t.point(i, t.hash(e.prefix, e.domain, t.restOf(e)))
		}
	} else {
		t.point(len(t.links)-1, hash)
	}
	return len(t.links) - 1
}

// point puts link i into the index.
func (t *tally) point(i int, hash uint64) {
	h, mask := hash, uint64(len(t.index)-1)
	for t.index[h&mask] != 0 {
		h++
	}
	t.index[h&mask] = entryOf(hash, i+1)
}

// sortKey orders a link in a compacted segment: by domain, then by code.
type sortKey struct {
	prefix uint64
	domain waypost.DomainID
	n      uint32 // of the link
}

// order returns the keys of the links in order.
func (t *tally) order() []sortKey {
	t.keys = t.keys[:0]
	for i := range t.links {
		t.keys = append(t.keys, sortKey{t.links[i].prefix, t.links[i].domain, uint32(i)})
	}
	sortPaced(t.pace, t.keys, func(a, b sortKey) int {
		if c := cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.prefix, b.prefix)); c != 0 {
			return c
		}
		return bytes.Compare(t.restOf(&t.links[a.n]), t.restOf(&t.links[b.n]))
	})
	return t.keys
}
