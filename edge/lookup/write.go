package lookup

import (
	"sync/atomic"

	"waypost"
)

// Reserve makes room for that many entries at once, as far as the budget allows, so that
// loading them moves nothing.
func (t *Table) Reserve(entries int) {
	if t.closed() {
		return
	}
	entries = min(entries, int(t.budget.limit/64)) // a record has more than 50 bytes, and a slot
	each := entries >> t.shardBits
	each += each/32 + 16 // they are not spread quite evenly
	for i := range t.shards {
		sh := &t.shards[i]
		if n := (each*5/4 + minSlots) / minSlots * minSlots; n > len(sh.slots.Load().words) && !t.rebuild(sh, n) {
			return
		}
		t.reclaim()
	}
}

// Put sets the record that the store holds for a key from now on. A bounded table keeps
// it only if it had the key.
func (t *Table) Put(r *waypost.Record, extensions []byte) { t.put(r, extensions, true, t.bounded) }

// Load adds a record that the store held before; it changes no key that the table has. It
// returns false when the table is bounded and full.
func (t *Table) Load(r *waypost.Record, extensions []byte) bool {
	if !t.bounded {
		t.put(r, extensions, false, false)
	}
	return !t.bounded
}

// Promote is Load for a key that was asked for and should be at hand. Keys that were not
// read recently make way for it.
func (t *Table) Promote(r *waypost.Record, extensions []byte) { t.put(r, extensions, false, t.bounded) }

func (t *Table) put(r *waypost.Record, extensions []byte, news, evict bool) {
	if len(r.Name) == 0 || len(r.Name) > waypost.MaxName || t.closed() {
		return
	}
	hash := t.hash(r.Domain, r.Name)
	t.addToFilter(hash)
	if news && t.bounded && t.seek(hash, r.Domain, r.Name).slot == empty {
		return // no reader has asked for the key
	}
	t.buf = appendRecord(t.buf[:0], r, extensions)
	// Room first, because making it may move entries. The room of a slot comes before that
	// of the record, which it may use up.
	hasRoom := t.grow(&t.shards[hash>>(64-t.shardBits)], evict) && t.room(len(t.buf), evict)
	p := t.seek(hash, r.Domain, r.Name)
	switch {
	case p.slot != empty && !news:
	case p.slot != empty && hasRoom:
		p.set(slotOf(hash, t.store(t.buf)) | p.slot&recent)
		t.forget(p.slot)
	case p.slot != empty:
		t.drop(&p)
	case !hasRoom:
		t.lose()
	default:
		p.set(slotOf(hash, t.store(t.buf)))
		p.shard.entries++
		if p.fresh {
			p.shard.filled++
		}
		t.entries.Add(1)
	}
}

// Remove takes out a key that the store no longer holds.
func (t *Table) Remove(domain waypost.DomainID, name []byte) {
	if t.closed() {
		return
	}
	p := t.seek(t.hash(domain, name), domain, name)
	if p.slot == empty {
		return
	}
	p.set(gone)
	p.shard.entries--
	t.entries.Add(-1)
	t.forget(p.slot)
}

// Lacks reports whether the store certainly does not hold a key, like the answer Absent
// of Find. It is for the writer, and returns false when there is only a trace of the key.
func (t *Table) Lacks(domain waypost.DomainID, name []byte) bool {
	if t.closed() || len(name) == 0 || len(name) > waypost.MaxName {
		return false
	}
	hash := t.hash(domain, name)
	if t.find(hash, func(uint64) bool { return true }).slot != empty {
		return false // the key, or another with its fingerprint
	}
	if t.IsComplete() {
		return true
	}
	f := t.filter.Load()
	return f != nil && f.ready.Load() && !f.has(hash)
}

// Note adds a key that the store holds to the filter.
func (t *Table) Note(domain waypost.DomainID, name []byte) {
	if !t.closed() {
		t.addToFilter(t.hash(domain, name))
	}
}

// Resume lets a table load again, because the budget has more room than when it was used
// up. The caller loads everything once more. Leave is as in Config.
func (t *Table) Resume(leave int64) {
	t.bounded, t.leave, t.noFilter = false, leave, false
}

// UseAll lets a table grow into the part of the budget that it has spared so far.
func (t *Table) UseAll() { t.leave = 0 }

// Finish records that everything was loaded. It reports whether the table is complete,
// which it is if all records did fit.
func (t *Table) Finish() bool {
	if t.gradual {
		t.gradual = false
		for i := range t.shards {
			preferHuge(t.shards[i].slots.Load().mem)
		}
	}
	if t.bounded {
		return false
	}
	if t.phase.Load()&1 == 0 {
		t.phase.Add(1)
	}
	return true
}

// lose records that the store holds keys that the table does not.
func (t *Table) lose() {
	if t.phase.Load()&1 == 1 {
		t.phase.Add(1)
	}
	t.bounded = true
}

// slotRef refers to the slot of a key, or to the slot that the key would take.
type slotRef struct {
	shard *shard
	words []uint64
	index int    // of the slot
	slot  uint64 // empty: the key is not there
	fresh bool   // the slot was never used
}

// set publishes a slot. Readers see the whole new record, or the old one.
func (r *slotRef) set(slot uint64) { atomic.StoreUint64(&r.words[r.index], slot) }

// seek finds a key for the writer.
func (t *Table) seek(hash uint64, domain waypost.DomainID, name []byte) slotRef {
	return t.find(hash, func(slot uint64) bool {
		raw := t.at(offsetOf(slot))
		l, ok := layoutOf(raw)
		return ok && l.has(raw, domain, name)
	})
}

// find finds a slot of a hash for the writer.
func (t *Table) find(hash uint64, is func(slot uint64) bool) slotRef {
	sh := &t.shards[hash>>(64-t.shardBits)]
	s := sh.slots.Load()
	p := slotRef{shard: sh, words: s.words, index: -1}
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

// minSlots is the smallest number of slots of a shard: a page of them.
const minSlots = pageSize / 8

// A shard is full at 4/5, and then gets an array that it fills to 16/25: it grows by a
// quarter.
func maxFilled(n int) int { return n / 5 * 4 }

func slotsFor(entries int) int {
	n := entries*25/16 + 1
	return (n + minSlots - 1) / minSlots * minSlots
}

// grow makes room for one more entry in a shard, and returns false when the budget
// has none. Where the budget is used up, evict allows entries that were not read recently
// to make way: a shard with slots full of removed entries needs a fresh array even
// to stay as large as it is.
func (t *Table) grow(sh *shard, evict bool) bool {
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

// rebuild makes a new array of n slots for a shard, without the removed entries.
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
			t.lose() // its key is unknown, and the store has it
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
