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

// filter tells of most keys that the store does not have that it does not have
// them: a Bloom filter in which all bits of a key lie in one cache line, one in each
// word of it. Full, it goes on with another layer. Nothing is ever taken out.
type filter struct {
	ready  atomic.Bool // all keys of the store are in it
	layers []layer
}

type layer struct {
	mem      []byte
	words    []uint64
	capacity int // keys that it was made for
	keys     int // the writer's own
}

// mask gives the bit of word i of a block.
func mask(hash uint64, i int) uint64 {
	return 1 << (hash >> (6 * i) & 63)
}

// block gives the words of a key and the hash that its bits are taken from.
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

func (l *layer) add(hash uint64) {
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

// NeedsFilter reports whether the table holds a part of the store only and has no
// filter yet: then it is worth a call of StartFilter with all keys after it.
func (t *Table) NeedsFilter() bool { return t.bounded && t.filter.Load() == nil && !t.noFilter }

// StartFilter begins a filter for so many keys, which the caller adds by Note. It
// has at most a quarter of the budget, and what the table holds makes way for it; it
// is false when that makes none worth having.
func (t *Table) StartFilter(keys int) bool {
	if t.closed() {
		return false
	}
	l, ok := t.newLayer(keys + keys/4)
	if ok {
		t.filter.Store(&filter{layers: []layer{l}})
	}
	t.noFilter = !ok
	return ok
}

// FilterReady says that all keys of the store were noted.
func (t *Table) FilterReady() {
	if f := t.filter.Load(); f != nil {
		f.ready.Store(true)
	}
}

func (t *Table) newLayer(keys int) (l layer, ok bool) {
	keys = max(keys, 1<<12)
	size := min(int64(keys)*keyBits/8, t.budget.limit/4)
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

// shrink gives one segment back to the budget, or tries to.
func (t *Table) shrink() bool {
	t.reclaim()
	if len(t.free) <= spare && len(t.sealed) > 0 && !t.evacuate(0, false) {
		return false
	}
	if len(t.free) > spare {
		t.unmapSegment()
		return true
	}
	return t.awaitReaders()
}

// note adds a key to the filter.
func (t *Table) note(hash uint64) {
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
			last.capacity *= 2 // it tells less from now on, but nothing wrong
		}
	}
	last.add(hash)
}
