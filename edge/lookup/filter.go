package lookup

import (
	"math/bits"
	"sync/atomic"
)

const (
	blockWords   = 8 // a block is a cache line
	keyBits      = 12
	leastKeyBits = 4 // below that a filter is not worth its memory
)

// filter recognises most keys that the store does not have. It is a Bloom filter in
// which all bits of a key lie in one cache line, one in each word of it. No key is ever
// removed.
type filter struct {
	ready    atomic.Bool // all keys of the store are in it
	mem      []byte
	words    []uint64
	capacity int // keys that it is made for
	keys     int // owned by the writer
}

// mask returns the bit in word i of a block.
func mask(hash uint64, i int) uint64 {
	return 1 << (hash >> (6 * i) & 63)
}

// block returns the words of a key and the hash from which its bits are taken.
func (f *filter) block(hash uint64) (words []uint64, rest uint64) {
	hash *= 0xd6e8feb86659fd93 // other bits than those of the slots
	hash ^= hash >> 32
	hi, _ := bits.Mul64(hash, uint64(len(f.words)/blockWords))
	return f.words[hi*blockWords:][:blockWords], hash * 0x9e3779b97f4a7c15
}

// has reports whether a key may be in the store; false is certain once it is ready.
func (f *filter) has(hash uint64) bool {
	words, rest := f.block(hash)
	for i := range words {
		if atomic.LoadUint64(&words[i])&mask(rest, i) == 0 {
			return false
		}
	}
	return true
}

func (f *filter) addHash(hash uint64) {
	words, rest := f.block(hash)
	for i := range words {
		if old := atomic.LoadUint64(&words[i]); old&mask(rest, i) == 0 {
			atomic.StoreUint64(&words[i], old|mask(rest, i))
		}
	}
	f.keys++
}

// NeedsFilter reports whether the table holds a part of the store only and has no filter
// yet. Then the caller should call StartFilter, and Note with all keys after it.
func (t *Table) NeedsFilter() bool { return t.bounded && t.filter.Load() == nil && !t.noFilter }

// StartFilter begins a filter for that many keys, which the caller adds by Note. The
// filter takes at most a quarter of the budget, and entries make way for it. StartFilter
// returns false when no useful filter fits, or when readers still use the memory; then
// NeedsFilter still returns true.
func (t *Table) StartFilter(keys int) bool {
	if t.closed() {
		return false
	}
	keys = max(keys+keys/4, 1<<12)
	size := min(int64(keys)*keyBits/8, t.budget.limit/4)
	if t.noFilter = size*8 < int64(keys)*leastKeyBits; t.noFilter {
		return false
	}
	size = (size + pageSize - 1) / pageSize * pageSize
	mem := t.claim(int(size))
	for n := 0; mem == nil && n < 4*len(t.segments) && t.shrink(); n++ {
		mem = t.claim(int(size))
	}
	if mem == nil {
		return false
	}
	t.filter.Store(&filter{mem: mem, words: words(mem), capacity: keys})
	return true
}

// FilterReady records that all keys of the store were noted.
func (t *Table) FilterReady() {
	if f := t.filter.Load(); f != nil {
		f.ready.Store(true)
	}
}

// addToFilter adds a key to the filter. A filter with more keys than it is made for goes,
// so that the table needs another one.
func (t *Table) addToFilter(hash uint64) {
	f := t.filter.Load()
	if f == nil || f.has(hash) {
		return
	}
	if f.keys == f.capacity {
		if t.budget.limit/4*8 >= int64(f.keys+f.keys/4)*leastKeyBits {
			t.filter.Store(nil)
			t.retireSlots(f.mem)
			return
		}
		f.capacity *= 2 // no larger one fits, and this one recognises fewer from now on
	}
	f.addHash(hash)
}
