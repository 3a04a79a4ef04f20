package lookup

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// spare is how many segments are kept free, for what is kept of one that makes way.
const spare = 1

// segment is a part of the memory that records lie in, one after the other. Written
// once, its bytes stay until no reader can reach them.
type segment struct {
	base atomic.Pointer[byte] // nil: not mapped

	// The writer's own:
	mem     []byte // all of it
	used    int    // bytes, from the first on
	records int    // that slots refer to
	live    int    // bytes of those
}

// at gives what lies at an offset and behind it within the segment.
func (t *Table) at(offset int64) []byte {
	i := offset >> t.segmentBits
	if uint64(i) >= uint64(len(t.segments)) {
		return nil
	}
	base := t.segments[i].base.Load()
	if base == nil {
		return nil
	}
	return unsafe.Slice(base, 1<<t.segmentBits)[offset&(1<<t.segmentBits-1):]
}

// mapAs makes memory a segment; nil takes the segment's away.
func (s *segment) mapAs(mem []byte) {
	s.mem = mem
	s.base.Store(unsafe.SliceData(mem))
}

// unmapSegment gives one back to the budget that is free.
func (t *Table) unmapSegment() {
	s := &t.segments[t.free[len(t.free)-1]]
	t.free = t.free[:len(t.free)-1]
	t.release(s.mem)
	s.mapAs(nil)
}

// store appends a record to the present segment, in which there must be room.
func (t *Table) store(raw []byte) (offset int64) {
	s := &t.segments[t.head]
	copy(s.mem[s.used:], raw)
	offset = int64(t.head)<<t.segmentBits | int64(s.used)
	s.used += len(raw)
	s.records++
	s.live += len(raw)
	t.used += int64(len(raw))
	t.live += int64(len(raw))
	return offset
}

// forget says that a slot no longer refers to its record.
func (t *Table) forget(slot uint64) {
	offset := offsetOf(slot)
	l, ok := layoutOf(t.at(offset))
	s := &t.segments[offset>>t.segmentBits]
	s.records--
	if ok {
		s.live -= l.end
		t.live -= int64(l.end)
	}
}

// fits reports whether the present segment has room for n bytes.
func (t *Table) fits(n int) bool {
	return t.head >= 0 && t.segments[t.head].used+n <= len(t.segments[t.head].mem)
}

// room sees to it that the present segment has room for n bytes. Where the budget
// is used up, evict allows that what was not read of late makes way.
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

// nextSegment begins a new segment, of which at least spare must be left. The
// present one is sealed.
func (t *Table) nextSegment(spare int) bool {
	for t.reclaim(); len(t.free) <= spare; {
		if !t.mapSegment() && !t.awaitReaders() {
			return false
		}
	}
	if t.head >= 0 {
		t.sealed = append(t.sealed, t.head)
	}
	t.head = t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	s := &t.segments[t.head]
	s.used, s.records, s.live = 0, 0, 0
	return true
}

// awaitReaders takes back a part of what readers may still look at, and is false when
// there is none. They stay for less than a microsecond, unless the system takes their
// thread; it is for such that it does not wait for ever.
func (t *Table) awaitReaders() bool {
	waiting := len(t.limbo)
	for range 200 {
		if t.reclaim(); len(t.limbo) < waiting {
			return true
		}
		if waiting == 0 || t.stuck {
			return false
		}
		runtime.Gosched()
		time.Sleep(time.Microsecond)
	}
	t.stuck = true // it has had its wait
	return false
}

// mapSegment adds one to those that are free.
func (t *Table) mapSegment() bool {
	for i := range t.segments {
		i = (t.lastMapped + i) % len(t.segments)
		if t.segments[i].mem == nil {
			mem := t.claim(1 << t.segmentBits)
			if mem == nil {
				return false
			}
			t.segments[i].mapAs(mem)
			t.lastMapped = i
			t.free = append(t.free, i)
			return true
		}
	}
	return false
}

// compact copies what is left in the emptiest segments together when more than an
// eighth of the memory is of records that were replaced.
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
	for len(t.free) > spare+2 { // what is left over goes back to the system
		t.unmapSegment()
	}
}

// evacuate copies what is worth keeping in a sealed segment elsewhere, and takes the
// segment back once its readers have left: everything, or only what was read since it
// was written. It is false, and nothing is changed, when there is no room for that.
func (t *Table) evacuate(sealed int, everything bool) bool {
	// What is kept fits into the rest of the present segment and one more.
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
	if from.records != 0 { // a record that is not where its key says
		t.disown(i)
	}
	t.used -= int64(from.used)
	t.live -= int64(from.live) // 0, unless something was damaged
	t.sealed = append(t.sealed[:sealed], t.sealed[sealed+1:]...)
	t.retireSegment(i)
	t.reclaim()
	return true
}

// move copies one record of a segment that is evacuated, or lets it go.
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

// drop takes an entry out that the store still has.
func (t *Table) drop(p *place) {
	t.lose() // before: a reader that misses it must not think that it knows all
	p.set(gone)
	p.shard.entries--
	t.entries.Add(-1)
	t.forget(p.slot)
}

// disown takes out whatever still refers to a segment whose records cannot be
// found by their keys any more.
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
