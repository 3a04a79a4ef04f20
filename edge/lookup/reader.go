package lookup

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// stripes is the number of places that readers are counted in.
const stripes = 64

// closedEpoch is that of a table which is gone.
const closedEpoch = ^uint64(0)

// stripe counts readers, in a cache line of its own. Those of one epoch and of the
// next are counted apart; a sum of enters and leaves would not tell them apart.
type stripe struct {
	enters  [2]atomic.Uint64
	leaves  [2]atomic.Uint64
	absent  atomic.Uint64 // answers
	unknown atomic.Uint64
	damaged atomic.Uint64
	_       [8]byte
}

// enter counts a reader in. Until it leaves, no memory that it can reach is used for
// anything else. It is false when the table is closed.
func (t *Table) enter() (s *stripe, parity uint64, ok bool) {
	// Where the goroutine's stack lies tells connections apart, which the key would
	// not when all ask for the same link.
	var here byte
	address := uint64(uintptr(unsafe.Pointer(&here)))
	s = &t.stripes[(address>>10)*0x9e3779b97f4a7c15>>58]
	for {
		epoch := t.epoch.Load()
		if epoch == closedEpoch {
			return nil, 0, false
		}
		s.enters[epoch&1].Add(1)
		// The epoch only moves when the writer retires memory, a whole segment at a
		// time: a second turn is rare, and a third one unheard of.
		if t.epoch.Load() == epoch {
			return s, epoch & 1, true
		}
		s.leaves[epoch&1].Add(1)
	}
}

func (s *stripe) leave(parity uint64) { s.leaves[parity].Add(1) }

// drained reports whether no reader is left that has entered in an epoch of that
// parity. The epoch must have moved on.
func (t *Table) drained(parity uint64) bool {
	for i := range t.stripes {
		s := &t.stripes[i]
		// Whoever has left before the first reading has entered before the second.
		left := s.leaves[parity].Load()
		if s.enters[parity].Load() != left {
			return false
		}
	}
	return true
}

// retired is memory that readers may still look at.
type retired struct {
	epoch   uint64 // in which it went out of reach
	slots   []byte // an array of slots, to be unmapped; or
	segment int    // a segment, to be used again
}

func (t *Table) retireSlots(mem []byte) {
	t.limbo = append(t.limbo, retired{epoch: t.epoch.Load(), slots: mem})
}

func (t *Table) retireSegment(i int) {
	t.limbo = append(t.limbo, retired{epoch: t.epoch.Load(), segment: i})
}

// reclaim takes back what no reader can see any more. It does not wait.
func (t *Table) reclaim() {
	for len(t.limbo) > 0 {
		epoch := t.epoch.Load()
		if !t.drained((epoch - 1) & 1) {
			return // readers of the epoch before are still there
		}
		n := 0
		for n < len(t.limbo) && t.limbo[n].epoch < epoch {
			if r := t.limbo[n]; r.slots != nil {
				t.release(r.slots)
			} else {
				t.free = append(t.free, r.segment)
			}
			n++
		}
		t.limbo = t.limbo[:copy(t.limbo, t.limbo[n:])]
		if len(t.limbo) > 0 {
			t.epoch.Store(epoch + 1)
		}
	}
}

// Close unmaps everything, once the readers have left. Later readers are told to
// ask the store.
func (t *Table) Close() {
	if t.epoch.Swap(closedEpoch) == closedEpoch {
		return
	}
	// A reader stays for less than a microsecond, unless the system takes its thread.
	for pause := time.Duration(0); !t.drained(0) || !t.drained(1); pause = min(pause+time.Microsecond, time.Millisecond) {
		runtime.Gosched()
		time.Sleep(pause)
	}
	for _, r := range t.limbo {
		t.release(r.slots)
	}
	for i := range t.segments {
		t.release(t.segments[i].mem)
		t.segments[i].mapAs(nil)
	}
	for i := range t.shards {
		t.release(t.shards[i].slots.Load().mem)
	}
	if f := t.filter.Swap(nil); f != nil {
		for _, l := range f.layers {
			t.release(l.mem)
		}
	}
	t.limbo, t.free, t.sealed = nil, nil, nil
}
