package lookup

import (
	"waypost"
)

// Reserve makes room for so many entries at once, as far as the budget can hold
// them, so that loading them moves nothing.
func (t *Table) Reserve(entries int) {
	if t.closed() {
		return
	}
	entries = min(entries, int(t.budget.limit/64)) // a record has more than 50 bytes, and a slot
	each := entries >> t.shardBits
	each += each/32 + 16 // they do not fall quite evenly
	for i := range t.shards {
		sh := &t.shards[i]
		if n := (each*5/4 + minSlots) / minSlots * minSlots; n > len(sh.slots.Load().words) && !t.rebuild(sh, n) {
			return
		}
		t.reclaim()
	}
}

// Put says what the store holds for a key from now on. A bounded table takes it up
// only if it had the key.
func (t *Table) Put(r *waypost.Record, extensions []byte) { t.put(r, extensions, true, t.bounded) }

// Load is Put for what the store held all along: it says nothing new of a key that
// the table has. It is false when the table is bounded, and need not be given more.
func (t *Table) Load(r *waypost.Record, extensions []byte) bool {
	if !t.bounded {
		t.put(r, extensions, false, false)
	}
	return !t.bounded
}

// Promote is Load for a key that was asked for and should be at hand: others that
// were not make way.
func (t *Table) Promote(r *waypost.Record, extensions []byte) { t.put(r, extensions, false, t.bounded) }

func (t *Table) put(r *waypost.Record, extensions []byte, news, evict bool) {
	if len(r.Name) == 0 || len(r.Name) > waypost.MaxName || t.closed() {
		return
	}
	hash := t.hash(r.Domain, r.Name)
	t.note(hash)
	if news && t.bounded && t.seek(hash, r.Domain, r.Name).slot == empty {
		return // a key that nobody has asked for
	}
	t.buf = appendRecord(t.buf[:0], r, extensions)
	// Room first: making it may move what is there. That of a slot comes before that of
	// the record, which it may use up.
	hasRoom := t.growable(&t.shards[hash>>(64-t.shardBits)], evict) && t.room(len(t.buf), evict)
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

// Remove says that the store does not hold a key any more.
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

// Lacks reports whether the store certainly holds nothing of a key, as Find says with
// Absent, but for the writer: false when there is only a trace of it.
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

// Note says that the store holds a key. It only matters to the filter.
func (t *Table) Note(domain waypost.DomainID, name []byte) {
	if !t.closed() {
		t.note(t.hash(domain, name))
	}
}

// Resume makes a table load again, because the budget has more than when it was
// exhausted; the caller loads everything once more. Leave is as in Config.
func (t *Table) Resume(leave int64) {
	t.bounded, t.leave, t.noFilter = false, leave, false
}

// Finish says that everything was loaded. The table is complete, unless something
// did not fit, and reports which.
func (t *Table) Finish() bool {
	if t.bounded {
		return false
	}
	if t.phase.Load()&1 == 0 {
		t.phase.Add(1)
	}
	return true
}

func (t *Table) closed() bool { return t.epoch.Load() == closedEpoch }

// lose notes that the store holds what the table does not.
func (t *Table) lose() {
	if t.phase.Load()&1 == 1 {
		t.phase.Add(1)
	}
	t.bounded = true
}

// Bounded reports whether the table holds only a part of the store.
func (t *Table) Bounded() bool { return t.bounded }
