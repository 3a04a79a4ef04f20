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
)

// rounds of the Feistel network, as many as NIST's FF1 has. It is part of the
// mapping and never changes.
const rounds = 10

// domain is the set 0 … left·right-1 on which the network works, of which the
// counters are the first size numbers.
type domain struct {
	left, right uint64
	size        uint64
}

// newDomain gives the domain whose left half is the root of size, rounded down,
// and whose right half is the smallest that makes room for size numbers. Fewer than
// √size numbers are too many, and none when size is a square.
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

// Key is that of one prefix. Who has it can tell the counters of the prefix's codes, and so which
// codes follow a given one; it tells nothing about other prefixes.
type Key [16]byte

// deriveKey derives the key of a prefix. The label holds all that the mapping
// depends on beside the secret; it must never change.
func deriveKey(s Space, prefix int, secret [32]byte) Key {
	mac := hmac.New(sha256.New, secret[:])
	_, _ = fmt.Fprintf(mac, "waypost/keyrange/permutation/1/%d/%d/%s", s.codeLength, s.prefixLength, s.Prefix(prefix)) // a hash never fails
	return Key(mac.Sum(nil)[:len(Key{})])
}

func newPermutation(d domain, k Key) *permutation {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		panic("keyrange: " + err.Error()) // 16 bytes are a key
	}
	return &permutation{domain: d, block: block}
}

// scratch is what a round hands to the cipher. The cipher is behind an interface,
// so these bytes would be allocated anew for every code if the coder did not keep
// them. It belongs to one goroutine at a time.
type scratch struct{ in, out [aes.BlockSize]byte }

// forward maps a counter to a suffix. What falls outside of the counters is sent
// through again until it falls inside (cycle walking), which keeps it a bijection.
func (p *permutation) forward(s *scratch, n uint64) uint64 {
	for {
		l, r := n/p.right, n%p.right
		for i := 0; i < rounds; i += 2 {
			l = add(l, p.round(s, i, r, p.left), p.left)
			r = add(r, p.round(s, i+1, l, p.right), p.right)
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

// round is a pseudorandom number below modulus, made of the round's number and
// one half. Multiplying and keeping the upper word instead of dividing leaves a
// bias below 2⁻³⁶, for the modulus is below 2²⁸.
func (p *permutation) round(s *scratch, i int, half, modulus uint64) uint64 {
	binary.BigEndian.PutUint64(s.in[:8], uint64(i))
	binary.BigEndian.PutUint64(s.in[8:], half)
	p.block.Encrypt(s.out[:], s.in[:])
	n, _ := bits.Mul64(binary.BigEndian.Uint64(s.out[:8]), modulus)
	return n
}

func add(a, b, modulus uint64) uint64 {
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
