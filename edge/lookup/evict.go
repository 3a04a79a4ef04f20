package lookup

import "sync/atomic"

// room makes room for n bytes in the present segment. Where the budget is used up, evict
// allows entries that were not read recently to make way.
func (t *Table) room(n int, evict bool) bool {
	if t.fits(n) {
		return true
	}
	t.compact()
	if t.fits(n) || t.nextSegment(spare) {
		return true
	}
	if !evict || len(t.sealed) == 0 {
		return false
	}
	if !t.evacuate(0, false) {
		return false
	}
	return t.fits(n) || t.nextSegment(spare)
}

// compact copies the records of the emptiest segments together when more than an eighth
// of the memory is of replaced records.
func (t *Table) compact() {
	for range 8 {
		if t.used-t.live <= t.used/8 || len(t.sealed) == 0 {
			break
		}
		worst := 0
		for i, s := range t.sealed {
			if a, b := &t.segments[s], &t.segments[t.sealed[worst]]; a.used-a.live > b.used-b.live {
				worst = i
			}
		}
		if t.segments[t.sealed[worst]].used == t.segments[t.sealed[worst]].live || !t.evacuate(worst, true) {
			break
		}
		t.reclaim()
	}
	for len(t.free) > spare+2 { // the rest goes back to the system
		t.unmapSegment()
	}
}

// shrink returns one segment to the budget, or tries to.
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

// evacuate moves records out of a sealed segment, and frees the segment once its readers
// have left. It keeps everything, or only records that were read since they were written.
// It returns false, and changes nothing, when there is no room for that.
func (t *Table) evacuate(sealed int, everything bool) bool {
	// The rest of the present segment and one more hold the records that are kept.
	if t.reclaim(); len(t.free) == 0 && !t.mapSegment() && (!t.awaitReaders() || len(t.free) == 0) {
		return false
	}
	i := t.sealed[sealed]
	from := &t.segments[i]
	for at := 0; at < from.used; {
		raw := from.mem[at:from.used]
		l, ok := layoutOf(raw)
		if !ok {
			break
		}
		offset := int64(i)<<t.segmentBits | int64(at)
		t.move(raw[:l.end], offset, l, everything)
		at += l.end
	}
	if from.records != 0 { // a record was damaged
		t.disown(i)
	}
	t.used -= int64(from.used)
	t.live -= int64(from.live) // 0, unless a record was damaged
	t.sealed = append(t.sealed[:sealed], t.sealed[sealed+1:]...)
	t.retireSegment(i)
	t.reclaim()
	return true
}

// move copies one record of a segment that is evacuated, or drops it.
func (t *Table) move(raw []byte, offset int64, l layout, everything bool) {
	hash := t.hash(domainOf(raw), raw[l.name:l.payload])
	p := t.find(hash, func(slot uint64) bool { return offsetOf(slot) == offset })
	if p.slot == empty {
		return // it was replaced
	}
	keep := everything || p.slot&recent != 0
	if keep && !l.intact(raw) {
		t.damaged.Add(1)
		keep = false
	}
	if keep && !t.fits(len(raw)) {
		keep = t.nextSegment(0)
	}
	if !keep {
		t.drop(&p)
		return
	}
	to := t.store(raw)
	p.set(slotOf(hash, to))
	t.forget(p.slot)
}

// drop removes an entry that the store still has.
func (t *Table) drop(p *slotRef) {
	t.lose() // first: a reader that misses the entry must not take the table for complete
	p.set(gone)
	p.shard.entries--
	t.entries.Add(-1)
	t.forget(p.slot)
}

// disown removes the entries that still refer to a segment with records that cannot be
// found by their keys.
func (t *Table) disown(i int) {
	t.lose()
	for n := range t.shards {
		sh := &t.shards[n]
		words := sh.slots.Load().words
		for at := range words {
			slot := atomic.LoadUint64(&words[at])
			if slot == empty || slot == gone || offsetOf(slot)>>t.segmentBits != int64(i) {
				continue
			}
			t.damaged.Add(1)
			atomic.StoreUint64(&words[at], gone)
			sh.entries--
			t.entries.Add(-1)
		}
	}
	t.segments[i].records = 0
}
