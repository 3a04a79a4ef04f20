package rollup

import (
	"math"
	"math/bits"
)

// A sketch has 2^precision registers; the rank of a hash is found in the bits below
// those that choose its register.
const (
	precision    = 14
	registers    = 1 << precision
	maxRank      = 64 - precision + 1
	sketchLength = registers * 6 / 8
)

// sketch is a HyperLogLog: of all hashes that fell into a register the highest rank.
type sketch [registers]uint8

// add adds a hash of 40 bits, spread to 64: the register and the rank would use too
// many of 40.
func (s *sketch) add(hash uint64) {
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
	// There are no more hashes than that, whatever the registers are.
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
