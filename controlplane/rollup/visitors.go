package rollup

import (
	"encoding/binary"
	"slices"
)

// Visitors is who clicked on a day, people and bots apart. The zero value is nobody.
// They are told by the upper 40 bits of a hash that is another one every day, so the
// visitors of several days are the sum of each day's.
type Visitors struct{ people, bots set }

// hashBits is how much is known of a visitor.
const (
	hashBits  = 40
	hashBytes = hashBits / 8
	hashShift = 64 - hashBits
	hashMask  = 1<<hashBits - 1
)

// Add adds a visitor, by the upper 40 bits of hash, as [waypost.Visitor] has it.
func (v *Visitors) Add(hash uint64, bot bool) {
	if bot {
		v.bots.add(hash >> hashShift)
	} else {
		v.people.add(hash >> hashShift)
	}
}

// Merge adds all that o has. The order does not matter.
func (v *Visitors) Merge(o *Visitors) {
	v.people.merge(&o.people)
	v.bots.merge(&o.bots)
}

// Count tells how many visitors there were, and how many of these were bots. It is
// exact up to 2,048 of either.
func (v *Visitors) Count() (all, bots uint64) {
	people, bots := v.people.count(), v.bots.count()
	if v.people.sketch == nil && v.bots.sketch == nil {
		both := append(slices.Clone(v.people.hashes), v.bots.hashes...)
		slices.Sort(both)
		return uint64(len(slices.Compact(both))), bots
	}
	both := set{}
	both.merge(&v.people)
	both.merge(&v.bots)
	// A merged sketch is never less than each of the two, but what is exact may be.
	return max(both.count(), people, bots), bots
}

// Append appends the packed form.
func (v *Visitors) Append(dst []byte) []byte {
	return v.bots.append(v.people.append(append(dst, version)))
}

// UnpackVisitors reads the packed form; no bytes are nobody. EInvalid: it is not one.
func UnpackVisitors(p []byte) (*Visitors, error) {
	v := &Visitors{}
	if len(p) == 0 {
		return v, nil
	}
	r := &reader{rest: p}
	r.begin()
	v.people.unpack(r)
	v.bots.unpack(r)
	if err := r.end("a set of visitors"); err != nil {
		return nil, err
	}
	return v, nil
}

// maxExact is how many hashes of a set are kept as they are.
const maxExact = 2_048

// set is a set of hashes, or once there are more than maxExact a sketch of it. Hashes are
// in order and each once when sorted is their number.
type set struct {
	hashes []uint64
	sorted int
	sketch *sketch
}

func (s *set) add(hash uint64) {
	if s.sketch != nil {
		s.sketch.add(hash)
		return
	}
	if s.hashes = append(s.hashes, hash); len(s.hashes) > 2*maxExact {
		s.settle()
	}
}

// settle brings hashes in order, or makes a sketch of them.
func (s *set) settle() {
	if s.sorted == len(s.hashes) {
		return
	}
	slices.Sort(s.hashes)
	s.hashes = slices.Compact(s.hashes)
	s.sorted = len(s.hashes)
	if len(s.hashes) > maxExact {
		s.sketch = &sketch{}
		for _, h := range s.hashes {
			s.sketch.add(h)
		}
		s.hashes, s.sorted = nil, 0
	}
}

func (s *set) merge(o *set) {
	for _, h := range o.hashes {
		s.add(h)
	}
	if o.sketch == nil {
		return
	}
	if s.sketch == nil {
		s.sketch = &sketch{}
		for _, h := range s.hashes {
			s.sketch.add(h)
		}
		s.hashes, s.sorted = nil, 0
	}
	s.sketch.merge(o.sketch)
}

func (s *set) count() uint64 {
	s.settle()
	if s.sketch != nil {
		return s.sketch.count()
	}
	return uint64(len(s.hashes))
}

func (s *set) append(dst []byte) []byte {
	s.settle()
	if s.sketch != nil {
		return s.sketch.append(append(dst, 1))
	}
	dst = binary.AppendUvarint(append(dst, 0), uint64(len(s.hashes)))
	for _, h := range s.hashes {
		dst = append(dst, byte(h>>32), byte(h>>24), byte(h>>16), byte(h>>8), byte(h))
	}
	return dst
}

func (s *set) unpack(r *reader) {
	switch r.byte() {
	case 0:
		n := r.length(maxExact, hashBytes)
		s.hashes = make([]uint64, 0, n)
		for i := range n {
			b := r.bytes(hashBytes)
			h := uint64(b[0])<<32 | uint64(binary.BigEndian.Uint32(b[1:]))
			if i > 0 && h <= s.hashes[i-1] {
				r.fail("its hashes are out of order")
				break
			}
			s.hashes = append(s.hashes, h)
		}
		s.sorted = len(s.hashes)
	case 1:
		s.sketch = &sketch{}
		s.sketch.unpack(r)
	default:
		r.fail("its form is unknown")
	}
}
