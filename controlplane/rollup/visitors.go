package rollup

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Visitors counts the unique visitors of a day, people and bots separately. The zero
// value has none. The upper 40 bits of a hash identify a visitor. The hash changes every
// day, so the visitors of several days are the sum of each day's.
type Visitors struct{ people, bots set }

// Sizes of the stored part of a hash.
const (
	hashBits  = 40
	hashBytes = hashBits / 8
	hashShift = 64 - hashBits
	hashMask  = 1<<hashBits - 1
)

// Add adds a visitor by the upper 40 bits of its hash.
func (v *Visitors) Add(hash uint64, bot bool) {
	if bot {
		v.bots.addHash(hash >> hashShift)
	} else {
		v.people.addHash(hash >> hashShift)
	}
}

// Merge adds the visitors of o, in any order.
func (v *Visitors) Merge(o *Visitors) {
	v.people.merge(&o.people)
	v.bots.merge(&o.bots)
}

// Count returns the number of visitors, and of bots among them. It is exact up to 2,048
// of either.
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
	// A merged sketch never counts less than each of the two, but an exact set may.
	return max(both.count(), people, bots), bots
}

// Append appends the packed form.
func (v *Visitors) Append(dst []byte) []byte {
	return v.bots.append(v.people.append(append(dst, version)))
}

// Unpack reads the packed form into the memory of v; no bytes mean no visitors. It
// returns EInvalid for other bytes, and v has no visitors then.
func (v *Visitors) Unpack(p []byte) error {
	v.clear()
	if len(p) == 0 {
		return nil
	}
	r := newReader(p)
	r.readVersion()
	v.people.unpack(r)
	v.bots.unpack(r)
	if err := r.checkEnd("a set of visitors"); err != nil {
		v.clear()
		return err
	}
	return nil
}

func (v *Visitors) clear() {
	for _, s := range []*set{&v.people, &v.bots} {
		*s = set{hashes: s.hashes[:0]}
	}
}

// maxExact bounds the hashes of a set before it becomes a sketch.
const maxExact = 2_048

// set is a set of hashes, or a sketch once there are more than maxExact. The hashes are
// in order and unique when sorted is their number.
type set struct {
	hashes []uint64
	sorted int
	sketch *sketch
}

func (s *set) addHash(hash uint64) {
	if s.sketch != nil {
		s.sketch.addHash(hash)
		return
	}
	if s.hashes = append(s.hashes, hash); len(s.hashes) > 2*maxExact {
		s.compactHashes()
	}
}

// compactHashes sorts the hashes, or makes a sketch of them.
func (s *set) compactHashes() {
	if s.sorted == len(s.hashes) {
		return
	}
	slices.Sort(s.hashes)
	s.hashes = slices.Compact(s.hashes)
	s.sorted = len(s.hashes)
	if len(s.hashes) > maxExact {
		s.sketch = &sketch{}
		for _, h := range s.hashes {
			s.sketch.addHash(h)
		}
		s.hashes, s.sorted = nil, 0
	}
}

func (s *set) merge(o *set) {
	for _, h := range o.hashes {
		s.addHash(h)
	}
	if o.sketch == nil {
		return
	}
	if s.sketch == nil {
		s.sketch = &sketch{}
		for _, h := range s.hashes {
			s.sketch.addHash(h)
		}
		s.hashes, s.sorted = nil, 0
	}
	s.sketch.merge(o.sketch)
}

func (s *set) count() uint64 {
	s.compactHashes()
	if s.sketch != nil {
		return s.sketch.count()
	}
	return uint64(len(s.hashes))
}

func (s *set) append(dst []byte) []byte {
	s.compactHashes()
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
		s.hashes = slices.Grow(s.hashes, n)
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

// A sketch has 2^precision registers. The upper bits of a hash choose the register, and
// the bits below determine its rank.
const (
	precision    = 14
	registers    = 1 << precision
	maxRank      = 64 - precision + 1
	sketchLength = registers * 6 / 8
)

// sketch is a HyperLogLog: each register holds the highest rank of its hashes.
type sketch [registers]uint8

// addHash adds a hash of 40 bits, spread to 64, because register and rank need more than
// 40.
func (s *sketch) addHash(hash uint64) {
	x := spread(hash)
	rank := uint8(min(bits.LeadingZeros64(x<<precision)+1, maxRank))
	if r := &s[x>>(64-precision)]; rank > *r {
		*r = rank
	}
}

// spread is a bijection of 64 bits, the finaliser of SplitMix64 (Steele, Lea and
// Flood 2014).
func spread(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s *sketch) merge(o *sketch) {
	for i, rank := range o {
		s[i] = max(s[i], rank)
	}
}

// count estimates the number of different hashes, by the improved estimator of Ertl,
// "New cardinality estimation algorithms for HyperLogLog sketches" (2017), algorithm
// 6. It needs no tables and is unbiased for small sets, too.
func (s *sketch) count() uint64 {
	var ranks [maxRank + 1]int
	for _, rank := range s {
		ranks[rank]++
	}
	const m = float64(registers)
	z := m * tau(1-float64(ranks[maxRank])/m)
	for k := maxRank - 1; k >= 1; k-- {
		z = (z + float64(ranks[k])) / 2
	}
	z += m * sigma(float64(ranks[0])/m)
	estimate := m * m / (2 * math.Ln2 * z)
	// No registers can stand for more hashes than exist.
	return uint64(math.Round(min(estimate, 1<<hashBits)))
}

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		before := z
		y /= 2
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}

func (s *sketch) append(dst []byte) []byte {
	for i := 0; i < registers; i += 4 {
		v := uint32(s[i])<<18 | uint32(s[i+1])<<12 | uint32(s[i+2])<<6 | uint32(s[i+3])
		dst = append(dst, byte(v>>16), byte(v>>8), byte(v))
	}
	return dst
}

func (s *sketch) unpack(r *reader) {
	b := r.bytes(sketchLength)
	if b == nil {
		return
	}
	for i := 0; i < registers; i += 4 {
		v := uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
		b = b[3:]
		for j := range 4 {
			rank := uint8(v>>(18-6*j)) & 63
			if rank > maxRank {
				r.fail("a register is out of bounds")
				return
			}
			s[i+j] = rank
		}
	}
}
