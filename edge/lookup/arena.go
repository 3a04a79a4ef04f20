package lookup

import (
	"runtime"
	"time"
	"unsafe"
)

// arena holds the records in segments of mapped memory. Readers use at; all else belongs
// to the writer of the table.
type arena struct {
	readers
	segmentBits int
	segments    []segment

	memory

	// Owned by the writer.
	head       int       // the segment being written; -1: none
	sealed     []int     // full segments, the oldest first
	free       []int     // mapped segments that no reader can reach
	limbo      []retired // memory that readers may still reach
	stuck      bool      // readers have not left in the time given to them
	lastMapped int
	used, live int64 // bytes of records: all that were written, and those that slots refer to
}

// spare is the number of segments that are kept free, for the records that are kept of an
// evacuated segment.
const spare = 1

// retired is memory that readers may still reach.
type retired struct {
	epoch   uint64 // in which it went out of reach
	slots   []byte // an array of slots, to be unmapped; or
	segment int    // a segment, to be used again
}

// mapAs makes memory a segment; nil removes the segment's memory.
func (s *segment) mapAs(mem []byte) {
	s.mem = mem
	s.base.Store(unsafe.SliceData(mem))
}

// mapSegment adds a free segment.
func (a *arena) mapSegment() bool {
	for i := range a.segments {
		i = (a.lastMapped + i) % len(a.segments)
		if a.segments[i].mem == nil {
			mem := a.claim(1 << a.segmentBits)
			if mem == nil {
				return false
			}
			a.segments[i].mapAs(mem)
			a.lastMapped = i
			a.free = append(a.free, i)
			return true
		}
	}
	return false
}

// unmapSegment returns a free segment to the budget.
func (a *arena) unmapSegment() {
	s := &a.segments[a.free[len(a.free)-1]]
	a.free = a.free[:len(a.free)-1]
	a.release(s.mem)
	s.mapAs(nil)
}

// store appends a record to the present segment, in which there must be room.
func (a *arena) store(raw []byte) (offset int64) {
	s := &a.segments[a.head]
	copy(s.mem[s.used:], raw)
	offset = int64(a.head)<<a.segmentBits | int64(s.used)
	s.used += len(raw)
	s.records++
	s.live += len(raw)
	a.used += int64(len(raw))
	a.live += int64(len(raw))
	return offset
}

// forget records that a slot no longer refers to its record.
func (a *arena) forget(slot uint64) {
	offset := offsetOf(slot)
	l, ok := layoutOf(a.at(offset))
	s := &a.segments[offset>>a.segmentBits]
	s.records--
	if ok {
		s.live -= l.end
		a.live -= int64(l.end)
	}
}

// fits reports whether the present segment has room for n bytes.
func (a *arena) fits(n int) bool {
	return a.head >= 0 && a.segments[a.head].used+n <= len(a.segments[a.head].mem)
}

// nextSegment seals the present segment and begins a new one. keepFree segments are left
// free.
func (a *arena) nextSegment(keepFree int) bool {
	for a.reclaim(); len(a.free) <= keepFree; {
		if !a.mapSegment() && !a.awaitReaders() {
			return false
		}
	}
	if a.head >= 0 {
		a.sealed = append(a.sealed, a.head)
		preferHuge(a.segments[a.head].mem) // if it is not yet: see Config.Gradual
	}
	a.head = a.free[len(a.free)-1]
	a.free = a.free[:len(a.free)-1]
	s := &a.segments[a.head]
	s.used, s.records, s.live = 0, 0, 0
	return true
}

func (a *arena) retireSlots(mem []byte) {
	a.limbo = append(a.limbo, retired{epoch: a.epoch.Load(), slots: mem})
}

func (a *arena) retireSegment(i int) {
	a.limbo = append(a.limbo, retired{epoch: a.epoch.Load(), segment: i})
}

// reclaim frees memory that is out of reach for all readers. It does not wait.
func (a *arena) reclaim() {
	for len(a.limbo) > 0 {
		epoch := a.epoch.Load()
		if !a.drained((epoch - 1) & 1) {
			return // readers of the epoch before are still there
		}
		n := 0
		for n < len(a.limbo) && a.limbo[n].epoch < epoch {
			if r := a.limbo[n]; r.slots != nil {
				a.release(r.slots)
			} else {
				a.free = append(a.free, r.segment)
			}
			a.stuck = false
			n++
		}
		a.limbo = a.limbo[:copy(a.limbo, a.limbo[n:])]
		if len(a.limbo) > 0 {
			a.epoch.Store(epoch + 1)
		}
	}
}

// awaitReaders frees a part of the memory that readers may still reach, and returns false
// without such memory. Readers stay for less than a microsecond, unless the system
// preempts their thread; because of such readers, awaitReaders stops after a while.
func (a *arena) awaitReaders() bool {
	waiting := len(a.limbo)
	for range 200 {
		if a.reclaim(); len(a.limbo) < waiting {
			return true
		}
		if waiting == 0 || a.stuck {
			return false
		}
		runtime.Gosched()
		time.Sleep(time.Microsecond)
	}
	a.stuck = true // do not wait again
	return false
}

// releaseAll has all segments freed. No reader is left.
func (a *arena) releaseAll(free func([]byte)) {
	for _, r := range a.limbo {
		free(r.slots)
	}
	for i := range a.segments {
		free(a.segments[i].mem)
		a.segments[i].mapAs(nil)
	}
	a.limbo, a.free, a.sealed = nil, nil, nil
}
