package lookup

import (
	"math/bits"
	"sync/atomic"

	"waypost"
)

// A slot is a word: 0 when it was never used, 1 when what it held is gone, or
//
//	63      recently read
//	62..40  fingerprint: the low bits of the key's hash
//	39..0   where the record lies, plus 2
//
// Slots are searched from the key's own on, up to one that was never used.
const (
	empty       = 0
	gone        = 1
	recent      = 1 << 63
	offsetBits  = 40
	offsetMask  = 1<<offsetBits - 1
	fingerprint = (1<<63 - 1) &^ offsetMask
	offsetBase  = 2
)

// maxBytes is what offsets reach.
const maxBytes = 1<<offsetBits - 1<<20

func slotOf(hash uint64, offset int64) uint64 {
	return hash<<offsetBits&fingerprint | uint64(offset+offsetBase)
}

func offsetOf(slot uint64) int64 { return int64(slot&offsetMask) - offsetBase }

// minSlots is the least that a shard has: a page of them.
const minSlots = pageSize / 8

// A shard is full at 4/5, and is given an array that is used to 16/25 then: it grows
// by a quarter.
func maxFilled(n int) int { return n / 5 * 4 }

func slotsFor(entries int) int {
	n := entries*25/16 + 1
	return (n + minSlots - 1) / minSlots * minSlots
}

// shard is a part of the table with slots of its own, so that it grows by itself.
type shard struct {
	slots atomic.Pointer[slots]

	// The writer's own:
	entries int
	filled  int // entries and those gone
}

// slots is one array. Its words are read and written atomically.
type slots struct {
	mem   []byte
	words []uint64
}

// first gives the slot where the search for a hash begins. The shard is of the
// highest bits, the fingerprint of the lowest; this is of those between.
func (s *slots) first(shifted uint64) int {
	hi, _ := bits.Mul64(shifted, uint64(len(s.words)))
	return int(hi)
}

// place is where a key is, or would go.
type place struct {
	shard *shard
	words []uint64
	index int    // of the key's slot, or of the one to be used
	slot  uint64 // empty: the key is not there
	fresh bool   // the slot to be used was never used
}

// seek looks a key up for the writer.
func (t *Table) seek(hash uint64, domain waypost.DomainID, name []byte) place {
	return t.find(hash, func(slot uint64) bool {
		raw := t.at(offsetOf(slot))
		l, ok := layoutOf(raw)
		return ok && l.has(raw, domain, name)
	})
}

// find looks for a slot of that hash for the writer.
func (t *Table) find(hash uint64, is func(slot uint64) bool) place {
	sh := &t.shards[hash>>(64-t.shardBits)]
	s := sh.slots.Load()
	p := place{shard: sh, words: s.words, index: -1}
	for i := s.first(hash << t.shardBits); ; i++ {
		if i == len(s.words) {
			i = 0
		}
		slot := atomic.LoadUint64(&s.words[i])
		switch {
		case slot == empty:
			if p.index < 0 {
				p.index, p.fresh = i, true
			}
			return p
		case slot == gone:
			if p.index < 0 {
				p.index = i
			}
		case (slot^hash<<offsetBits)&fingerprint == 0 && is(slot):
			p.index, p.slot, p.fresh = i, slot, false
			return p
		}
	}
}

// set lets readers see a record. They see the whole of it, or what was before.
func (p *place) set(slot uint64) { atomic.StoreUint64(&p.words[p.index], slot) }

// growable makes room for one more entry in a shard, and is false when the budget
// has none. Where it is used up, evict allows that what was not read of late makes way:
// a shard whose slots are of entries that went needs a fresh array just to stay as
// large as it is.
func (t *Table) growable(sh *shard, evict bool) bool {
	if sh.filled < maxFilled(len(sh.slots.Load().words)) || t.rebuild(sh, slotsFor(sh.entries+1)) {
		return true
	}
	if !evict {
		return false
	}
	for range 8 + 8*slotsFor(sh.entries+1)>>t.segmentBits {
		if !t.shrink() {
			return false
		}
		if t.rebuild(sh, slotsFor(sh.entries+1)) {
			return true
		}
	}
	return false
}

// rebuild gives a shard an array of n slots, without those that are gone.
func (t *Table) rebuild(sh *shard, n int) bool {
	mem := t.claim(8 * n)
	if mem == nil {
		return false
	}
	old, fresh := sh.slots.Load(), &slots{mem: mem, words: words(mem)}
	sh.entries = 0
	for i := range old.words {
		slot := atomic.LoadUint64(&old.words[i])
		if slot == empty || slot == gone {
			continue
		}
		raw := t.at(offsetOf(slot))
		l, ok := layoutOf(raw)
		if !ok || !l.intact(raw) {
			t.lose() // whatever it was: the store has it
			t.damaged.Add(1)
			t.forget(slot)
			continue
		}
		hash := t.hash(domainOf(raw), raw[l.name:l.payload])
		at := fresh.first(hash << t.shardBits)
		for fresh.words[at] != empty {
			if at++; at == len(fresh.words) {
				at = 0
			}
		}
		fresh.words[at] = slot
		sh.entries++
	}
	sh.filled = sh.entries
	sh.slots.Store(fresh)
	t.retireSlots(old.mem)
	return true
}
