package clicks

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"

	"waypost"
)

// totals adds clicks up by link, up to as many links as a batch may have. A busy edge
// does this for every click, and has to answer redirects beside it: so it is a table
// of its own without pointers, which is emptied and used again.
type totals struct {
	clicks  uint64
	entries []entry  // in the order of their first clicks
	codes   []byte   // theirs, one behind the other
	index   []uint32 // number of an entry + 1 where its hash points, or behind; 0: none
	seeds   [2]uint64
}

// entry is the total of one link.
type entry struct {
	prefix uint64 // the code's first 8 bytes as a number, which compares like them
	at     uint32 // where the code is
	domain waypost.DomainID
	length uint8
	count  uint64
	last   int64
}

// prefixLength is how many bytes of a code are in an entry itself.
const prefixLength = 8

func newTotals() *totals {
	const links = 512
	return &totals{index: make([]uint32, 2*links), seeds: [2]uint64{rand.Uint64(), rand.Uint64()}}
}

// reset forgets all clicks, and keeps the memory.
func (t *totals) reset() {
	t.clicks, t.entries, t.codes = 0, t.entries[:0], t.codes[:0]
	clear(t.index)
}

// add counts one click; false when it would be one link too many. What no batch
// may hold is passed over.
func (t *totals) add(r record) bool {
	if !waypost.ValidCode(r.code) {
		return true
	}
	e := t.find(r.domain, r.code)
	if e == nil {
		if len(t.entries) == waypost.MaxClickTotals {
			return false
		}
		e = t.insert(r.domain, r.code)
		e.last = r.at
	}
	e.count++
	e.last = max(e.last, r.at)
	t.clicks++
	return true
}

func prefixOf(code []byte) uint64 {
	if len(code) >= prefixLength {
		return binary.BigEndian.Uint64(code)
	}
	var padded [prefixLength]byte
	copy(padded[:], code)
	return binary.BigEndian.Uint64(padded[:])
}

// hash is unforeseeable, so that nobody chooses codes that meet.
func (t *totals) hash(prefix uint64, domain waypost.DomainID, rest []byte) uint64 {
	hi, lo := bits.Mul64(prefix^t.seeds[0], uint64(domain)^t.seeds[1])
	for ; len(rest) > 0; rest = rest[min(prefixLength, len(rest)):] {
		hi, lo = bits.Mul64(prefixOf(rest)^hi^lo^t.seeds[0], uint64(len(rest))^t.seeds[1])
	}
	return hi ^ lo
}

func restOf(code []byte) []byte { return code[min(prefixLength, len(code)):] }

func (t *totals) find(domain waypost.DomainID, code []byte) *entry {
	prefix, rest, mask := prefixOf(code), restOf(code), uint64(len(t.index)-1)
	for h := t.hash(prefix, domain, rest); ; h++ {
		n := t.index[h&mask]
		if n == 0 {
			return nil
		}
		e := &t.entries[n-1]
		if e.prefix == prefix && e.domain == domain && int(e.length) == len(code) && bytes.Equal(t.restOf(e), rest) {
			return e
		}
	}
}

// code and restOf give the bytes of an entry.
func (t *totals) code(e *entry) []byte   { return t.codes[e.at : e.at+uint32(e.length)] }
func (t *totals) restOf(e *entry) []byte { return restOf(t.code(e)) }

// insert adds an entry for a link that has none. It is good until the next one.
func (t *totals) insert(domain waypost.DomainID, code []byte) *entry {
	t.entries = append(t.entries, entry{prefix: prefixOf(code), at: uint32(len(t.codes)), domain: domain, length: uint8(len(code))})
	t.codes = append(t.codes, code...)
	if 2*len(t.entries) > len(t.index) {
		t.index = make([]uint32, 2*len(t.index))
		for i := range t.entries {
			t.point(i)
		}
	} else {
		t.point(len(t.entries) - 1)
	}
	return &t.entries[len(t.entries)-1]
}

// point puts entry i into the index.
func (t *totals) point(i int) {
	e, mask := &t.entries[i], uint64(len(t.index)-1)
	h := t.hash(e.prefix, e.domain, t.restOf(e))
	for t.index[h&mask] != 0 {
		h++
	}
	t.index[h&mask] = uint32(i + 1)
}

// sorted gives the totals as a batch has them.
func (t *totals) sorted() []waypost.ClickTotal {
	codes, out := string(t.codes), make([]waypost.ClickTotal, len(t.entries))
	for i, p := range t.order() {
		e := &t.entries[p.n]
		code := waypost.Code(codes[e.at : e.at+uint32(e.length)])
		out[i] = waypost.ClickTotal{Domain: e.domain, Code: code, Count: e.count, Last: e.last}
	}
	return out
}

// place is where an entry comes in a batch: by domain, then by code.
type place struct {
	prefix uint64
	domain waypost.DomainID
	n      uint32 // of the entry
}

// order gives the entries' places in order. It sorts by one byte after the other, from
// the last one of the prefix to the first one of the domain, and leaves out those in
// which all are alike; what is left is codes with the same prefix.
func (t *totals) order() []place {
	from, to := make([]place, len(t.entries)), make([]place, len(t.entries))
	for i := range t.entries {
		from[i] = place{t.entries[i].prefix, t.entries[i].domain, uint32(i)}
	}
	for shift := 0; shift < 96; shift += 8 {
		var begins [257]int
		for i := range from {
			begins[1+from[i].byteAt(shift)]++
		}
		if slices.Contains(begins[1:], len(from)) {
			continue
		}
		for i := range 255 {
			begins[i+1] += begins[i]
		}
		for i := range from {
			b := from[i].byteAt(shift)
			to[begins[b]] = from[i]
			begins[b]++
		}
		from, to = to, from
	}
	for begin := 0; begin < len(from); {
		end := begin + 1
		for end < len(from) && from[end].prefix == from[begin].prefix && from[end].domain == from[begin].domain {
			end++
		}
		slices.SortFunc(from[begin:end], func(a, b place) int {
			return bytes.Compare(t.restOf(&t.entries[a.n]), t.restOf(&t.entries[b.n]))
		})
		begin = end
	}
	return from
}

// byteAt gives a byte of the domain and the prefix together, taken as one number.
func (p *place) byteAt(shift int) byte {
	if shift < 64 {
		return byte(p.prefix >> shift)
	}
	return byte(p.domain >> (shift - 64))
}
