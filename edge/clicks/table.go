package clicks

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"waypost"
)

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

// prefixLength is how many bytes of a code are in a tallied itself.
const prefixLength = 8

func prefixOf(code []byte) uint64 {
	if len(code) >= prefixLength {
		return binary.BigEndian.Uint64(code)
	}
	var padded [prefixLength]byte
	copy(padded[:], code)
	return binary.BigEndian.Uint64(padded[:])
}

// hash is unforeseeable, so that nobody chooses codes that meet.
func (t *tally) hash(prefix uint64, domain waypost.DomainID, rest []byte) uint64 {
	hi, lo := bits.Mul64(prefix^t.seeds[0], uint64(domain)^t.seeds[1])
	for ; len(rest) > 0; rest = rest[min(prefixLength, len(rest)):] {
		hi, lo = bits.Mul64(prefixOf(rest)^hi^lo^t.seeds[0], uint64(len(rest))^t.seeds[1])
	}
	return hi ^ lo
}

func restOf(code []byte) []byte { return code[min(prefixLength, len(code)):] }

// find gives the number of a link.
func (t *tally) find(domain waypost.DomainID, code []byte) (int, bool) {
	prefix, rest, mask := prefixOf(code), restOf(code), uint64(len(t.index)-1)
	for h := t.hash(prefix, domain, rest); ; h++ {
		n := t.index[h&mask]
		if n == 0 {
			return 0, false
		}
		e := &t.links[n-1]
		if e.prefix == prefix && e.domain == domain && int(e.length) == len(code) && bytes.Equal(t.restOf(e), rest) {
			return int(n - 1), true
		}
	}
}

// code and restOf give the bytes of a link.
func (t *tally) code(e *tallied) []byte   { return t.codes[e.at : e.at+uint32(e.length)] }
func (t *tally) restOf(e *tallied) []byte { return restOf(t.code(e)) }

// insert adds one that is not there. It is good until the next one.
func (t *tally) insert(domain waypost.DomainID, code []byte) int {
	t.links = append(t.links, tallied{prefix: prefixOf(code), at: uint32(len(t.codes)), domain: domain, length: uint8(len(code))})
	t.codes = append(t.codes, code...)
	if 2*len(t.links) > len(t.index) {
		t.index = make([]uint32, 2*len(t.index))
		for i := range t.links {
			t.point(i)
		}
	} else {
		t.point(len(t.links) - 1)
	}
	return len(t.links) - 1
}

// point puts link i into the index.
func (t *tally) point(i int) {
	e, mask := &t.links[i], uint64(len(t.index)-1)
	h := t.hash(e.prefix, e.domain, t.restOf(e))
	for t.index[h&mask] != 0 {
		h++
	}
	t.index[h&mask] = uint32(i + 1)
}
