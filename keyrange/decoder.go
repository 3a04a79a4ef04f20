package keyrange

import "sync/atomic"

// Decoder tells the counters of codes of those prefixes whose keys it has. It may be used by
// many goroutines at once.
type Decoder struct {
	space        Space
	permutations map[int]*permutation
	works        [8]work
}

// work is a scratch that one goroutine at a time uses. A sync.Pool would make others now and then.
type work struct {
	taken atomic.Bool
	scratch
	_ [64]byte // another work is in another cache line
}

// NewDecoder makes a decoder for a space from [NewSpace] of keys that [Coder.Key] gave, by the
// prefixes' ordinals.
func NewDecoder(space Space, keys map[int]Key) *Decoder {
	d := &Decoder{space: space, permutations: make(map[int]*permutation, len(keys))}
	domain := newDomain(space.suffixes)
	for prefix, k := range keys {
		d.permutations[prefix] = newPermutation(domain, k)
	}
	return d
}

// Space gives the space that the decoder works in.
func (d *Decoder) Space() Space { return d.space }

// Counter gives the counter of the code that [Space.Split] has taken apart, issued or not. It
// is not known without the prefix's key. It takes no lock.
func (d *Decoder) Counter(prefix int, suffix int64) (counter int64, known bool) {
	p := d.permutations[prefix]
	if p == nil {
		return 0, false
	}
	for i := range d.works {
		if w := &d.works[(i+int(suffix))%len(d.works)]; w.taken.CompareAndSwap(false, true) {
			counter = int64(p.backward(&w.scratch, uint64(suffix)))
			w.taken.Store(false)
			return counter, true
		}
	}
	return int64(p.backward(new(scratch), uint64(suffix))), true // more goroutines than usual
}
