package keyrange

import (
	"sync"
	"sync/atomic"

	"waypost"
)

// Coder turns counters into codes and back. It may be used by many goroutines at
// once.
//
// The mapping is for ever: a code is decoded years after it was minted. It depends
// on the cluster's secret, the two lengths of the space and the prefix, and on
// nothing else, so it survives whatever happens to the ranges.
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
// random; who has it can enumerate a cluster's codes.
func NewCoder(space Space, secret [32]byte) *Coder {
	return &Coder{
		space:        space,
		secret:       secret,
		domain:       newDomain(space.suffixes),
		permutations: make([]atomic.Pointer[permutation], space.prefixes),
		scratches:    sync.Pool{New: func() any { return new(scratch) }},
	}
}

// Space gives the space that the coder works in.
func (c *Coder) Space() Space { return c.space }

// Encode gives the code of a prefix's counter. Different counters have different
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

// Decode gives the prefix and counter of a code, issued or not. It is not ok for
// text that Encode can never give. Decoding makes the key of the code's prefix, if
// need be: see [Space.Split] for a cheap first look.
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
