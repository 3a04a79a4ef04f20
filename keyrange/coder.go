package keyrange

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"waypost"
)

// Coder turns counters into codes and back. It may be used by many goroutines at
// once.
//
// The mapping never changes, because a code is decoded years after it was minted. It
// depends on the cluster's secret, the two lengths of the space and the prefix alone, so
// changes of the ranges do not affect it.
type Coder struct {
	space  Space
	secret [32]byte
	domain domain

	// permutations by prefix, made at first use. Two goroutines may make the same
	// one at once; both are equal, and either may stay.
	permutations []atomic.Pointer[permutation]

	scratches sync.Pool // of *scratch
}

// NewCoder makes a coder for a space from [NewSpace]. The secret must be uniformly
// random; with it one can enumerate a cluster's codes.
func NewCoder(space Space, secret [32]byte) *Coder {
	return &Coder{
		space:        space,
		secret:       secret,
		domain:       newDomain(space.suffixes),
		permutations: make([]atomic.Pointer[permutation], space.prefixes),
		scratches:    sync.Pool{New: func() any { return new(scratch) }},
	}
}

// Space returns the space of the coder.
func (c *Coder) Space() Space { return c.space }

// Encode returns the code of a prefix's counter. Different counters have different
// codes. It panics when the counter is outside of the space: see [Space.Holds].
func (c *Coder) Encode(prefix int, counter int64) waypost.Code {
	c.space.mustHold(prefix, counter)
	work := c.scratches.Get().(*scratch)
	suffix := c.permutation(prefix).forward(work, uint64(counter))
	c.scratches.Put(work)

	var text [MaxCodeLength]byte
	write(text[:c.space.prefixLength], int64(prefix))
	write(text[c.space.prefixLength:c.space.codeLength], int64(suffix))
	return waypost.Code(text[:c.space.codeLength])
}

// Decode returns the prefix and counter of a code, issued or not. It is not ok for text
// that Encode can never return. Decoding may have to derive the key of the prefix: see
// [Space.Split] for a cheap first look.
func (c *Coder) Decode(code waypost.Code) (prefix int, counter int64, ok bool) {
	prefix, suffix, ok := c.space.Split(code)
	if !ok {
		return 0, 0, false
	}
	work := c.scratches.Get().(*scratch)
	counter = int64(c.permutation(prefix).backward(work, uint64(suffix)))
	c.scratches.Put(work)
	return prefix, counter, true
}

func (c *Coder) permutation(prefix int) *permutation {
	slot := &c.permutations[prefix]
	p := slot.Load()
	if p == nil {
		p = newPermutation(c.domain, deriveKey(c.space, prefix, c.secret))
		slot.Store(p)
	}
	return p
}

// rounds of the Feistel network, as many as NIST's FF1 has. It is part of the
// mapping and never changes.
const rounds = 10

// domain is the set 0 … left·right-1 that the network permutes. Its first size numbers
// are the counters.
type domain struct {
	left, right uint64
	size        uint64
}

// newDomain returns the domain with the root of size, rounded down, as its left half, and
// the smallest right half that makes room for size numbers. It exceeds size by fewer than
// √size numbers, and equals size when size is a square.
func newDomain(size int64) domain {
	n := uint64(size)
	left := uint64(math.Sqrt(float64(n)))
	for left*left > n { // the floating point may be off by one, the mapping must not
		left--
	}
	for (left+1)*(left+1) <= n {
		left++
	}
	return domain{left: left, right: (n + left - 1) / left, size: n}
}

// permutation is the keyed bijection of one prefix. It may be used by many
// goroutines at once.
type permutation struct {
	domain
	block cipher.Block
}

// permutationKey is the key of one prefix. With it one can decode the codes of the
// prefix, and tell which codes follow a given one, but no codes of other prefixes.
type permutationKey [16]byte

// deriveKey derives the key of a prefix. The label holds everything else that the mapping
// depends on; it must never change.
func deriveKey(s Space, prefix int, secret [32]byte) permutationKey {
	mac := hmac.New(sha256.New, secret[:])
	_, _ = fmt.Fprintf(mac, "waypost/keyrange/permutation/1/%d/%d/%s", s.codeLength, s.prefixLength, s.Prefix(prefix)) // a hash never fails
	return permutationKey(mac.Sum(nil)[:len(permutationKey{})])
}

func newPermutation(d domain, k permutationKey) *permutation {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		panic("keyrange: " + err.Error()) // 16 bytes are a key
	}
	return &permutation{domain: d, block: block}
}

// scratch is the input and output of the cipher. The coder reuses it, because the cipher
// is behind an interface and the bytes would be allocated for every code. It belongs to
// one goroutine at a time.
type scratch struct{ in, out [aes.BlockSize]byte }

// forward maps a counter to a suffix. A result outside of the counters is permuted again
// until it falls inside (cycle walking), so that the mapping stays a bijection.
func (p *permutation) forward(s *scratch, n uint64) uint64 {
	for {
		l, r := n/p.right, n%p.right
		for i := 0; i < rounds; i += 2 {
			l = addModulo(l, p.round(s, i, r, p.left), p.left)
			r = addModulo(r, p.round(s, i+1, l, p.right), p.right)
		}
		if n = l*p.right + r; n < p.size {
			return n
		}
	}
}

// backward is the inverse of forward.
func (p *permutation) backward(s *scratch, n uint64) uint64 {
	for {
		l, r := n/p.right, n%p.right
		for i := rounds - 2; i >= 0; i -= 2 {
			r = subtract(r, p.round(s, i+1, l, p.right), p.right)
			l = subtract(l, p.round(s, i, r, p.left), p.left)
		}
		if n = l*p.right + r; n < p.size {
			return n
		}
	}
}

// round returns a pseudorandom number below modulus, from the round's number and one
// half. Multiplying and keeping the upper word instead of dividing leaves a bias below
// 2⁻³⁶, for the modulus is below 2²⁸.
func (p *permutation) round(s *scratch, i int, half, modulus uint64) uint64 {
	binary.BigEndian.PutUint64(s.in[:8], uint64(i))
	binary.BigEndian.PutUint64(s.in[8:], half)
	p.block.Encrypt(s.out[:], s.in[:])
	n, _ := bits.Mul64(binary.BigEndian.Uint64(s.out[:8]), modulus)
	return n
}

func addModulo(a, b, modulus uint64) uint64 {
	if a += b; a >= modulus {
		a -= modulus
	}
	return a
}

func subtract(a, b, modulus uint64) uint64 {
	if a < b {
		a += modulus
	}
	return a - b
}
