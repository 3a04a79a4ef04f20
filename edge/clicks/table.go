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

// An entry of the index is 0, or the number of a link + 1 below and bits of its hash above: hardly ever is a link
// looked at that is another one, which would be a miss of the processor's cache each time.
const (
	numberBits = 17 // clickbatch.MaxLinks is 1<<16
	numberMask = 1<<numberBits - 1
)

func entryOf(hash uint64, number int) uint32 {
	return uint32(hash>>32)&^numberMask | uint32(number)
}

// find gives the number of a link, and the hash that it has in any case.
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

// code and restOf give the bytes of a link.
func (t *tally) code(e *tallied) []byte   { return t.codes[e.at : e.at+uint32(e.length)] }
func (t *tally) restOf(e *tallied) []byte { return restOf(t.code(e)) }

// insert adds one that is not there. It is good until the next one.
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
