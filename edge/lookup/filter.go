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

// filter recognises most keys that the store does not have. It is a Bloom filter in which
// all bits of a key lie in one cache line, one in each word of it. When it is full, it
// gets another layer. No key is ever removed.
type filter struct {
	ready  atomic.Bool // all keys of the store are in it
	layers []layer
}

type layer struct {
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
func (l *layer) block(hash uint64) (words []uint64, rest uint64) {
	hash *= 0xd6e8feb86659fd93 // other bits than those of the slots
	hash ^= hash >> 32
	hi, _ := bits.Mul64(hash, uint64(len(l.words)/blockWords))
	return l.words[hi*blockWords:][:blockWords], hash * 0x9e3779b97f4a7c15
}

func (l *layer) has(hash uint64) bool {
	words, rest := l.block(hash)
	for i := range words {
		if atomic.LoadUint64(&words[i])&mask(rest, i) == 0 {
			return false
		}
	}
	return true
}

func (l *layer) addHash(hash uint64) {
	words, rest := l.block(hash)
	for i := range words {
		if old := atomic.LoadUint64(&words[i]); old&mask(rest, i) == 0 {
			atomic.StoreUint64(&words[i], old|mask(rest, i))
		}
	}
	l.keys++
}

// has reports whether a key may be in the store; false is certain once it is ready.
func (f *filter) has(hash uint64) bool {
	for i := range f.layers {
		if f.layers[i].has(hash) {
			return true
		}
	}
	return false
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
	keys += keys / 4
	if t.noFilter = t.layerSize(keys)*8 < int64(keys)*leastKeyBits; t.noFilter {
		return false
	}
	l, ok := t.newLayer(keys)
	if ok {
		t.filter.Store(&filter{layers: []layer{l}})
	}
	return ok
}

// layerSize returns the bytes of a layer for that many keys.
func (t *Table) layerSize(keys int) int64 {
	return min(int64(max(keys, 1<<12))*keyBits/8, t.budget.limit/4)
}

// FilterReady records that all keys of the store were noted.
func (t *Table) FilterReady() {
	if f := t.filter.Load(); f != nil {
		f.ready.Store(true)
	}
}

func (t *Table) newLayer(keys int) (l layer, ok bool) {
	keys = max(keys, 1<<12)
	size := t.layerSize(keys)
	if size*8 < int64(keys)*leastKeyBits {
		return l, false
	}
	size = (size + pageSize - 1) / pageSize * pageSize
	mem := t.claim(int(size))
	for n := 0; mem == nil && n < 4*len(t.segments) && t.shrink(); n++ {
		mem = t.claim(int(size))
	}
	if mem == nil {
		return l, false
	}
	return layer{mem: mem, words: words(mem), capacity: keys}, true
}

// addToFilter adds a key to the filter.
func (t *Table) addToFilter(hash uint64) {
	f := t.filter.Load()
	if f == nil || f.has(hash) {
		return
	}
	last := &f.layers[len(f.layers)-1]
	if last.keys >= last.capacity {
		if l, ok := t.newLayer(2 * last.capacity); ok {
			next := &filter{layers: append(append([]layer(nil), f.layers...), l)}
			next.ready.Store(f.ready.Load())
			t.filter.Store(next)
			last = &next.layers[len(next.layers)-1]
		} else {
			last.capacity *= 2 // it recognises fewer keys from now on, and is never wrong
		}
	}
	last.addHash(hash)
}
