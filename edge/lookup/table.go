package lookup

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"waypost"
)

// MinBudget is the smallest budget that a table works with, in bytes.
const MinBudget = 1 << 20

// Config configures a [Table].
type Config struct {
	Budget *Budget // required: MinBudget or more
	Leave  int64   // bytes of the budget that the table leaves to others

	// Gradual has the table take small pages while it is loading, which the system joins
	// to huge ones later. The system clears a huge page at once, during which nothing
	// else runs on the processor: for 0.1 ms, and where a hypervisor has to find the
	// memory, for 5 ms.
	Gradual bool
}

// Answer is the table's knowledge of a key.
type Answer uint8

const (
	Unknown Answer = iota // nothing: ask the store
	Found                 // the record
	Absent                // the store has no such record
)

// Table holds records of links. Any number of goroutines may call Find, Stats and
// IsComplete; all other methods belong to the writer; there is one at a time.
//
// A new table is loading: it takes the records of Put and Load. Finish says that no
// record follows, so that a key that the table does not hold is Absent. When its budget
// does not suffice, the table is bounded from then on: it holds records that were read
// recently, and a filter of all keys recognises most of the absent ones.
type Table struct {
	// Never changed.
	seed      maphash.Seed
	shardBits int
	shards    []shard

	// Loaded by readers, and stored by the writer.
	phase  atomic.Uint64 // odd: complete
	filter atomic.Pointer[filter]

	arena // the records, and the count of readers

	// Counters for Stats.
	entries atomic.Int64
	damaged atomic.Int64 // damaged entries that were removed

	// Owned by the writer.
	bounded  bool
	noFilter bool
	buf      []byte
}

// New makes an empty table, which maps little memory until it is filled.
func New(cfg Config) (*Table, error) {
	limit := min(cfg.Budget.limit, maxBytes)
	if limit < MinBudget {
		return nil, fmt.Errorf("lookup: a budget of %d bytes is less than %d", limit, MinBudget)
	}
	t := &Table{
		seed:      maphash.MakeSeed(),
		shardBits: min(max(bits.Len64(uint64(limit>>18)), 4), 10),
		buf:       make([]byte, 0, maxRecord),
	}
	t.stripes = new([stripes]stripe)
	t.budget, t.leave, t.head, t.gradual = cfg.Budget, cfg.Leave, -1, cfg.Gradual
	t.segmentBits = min(max(bits.Len64(uint64(limit>>7)), 16), 21)
	t.segments = make([]segment, limit>>t.segmentBits)
	t.shards = make([]shard, 1<<t.shardBits)
	for i := range t.shards {
		mem := t.claim(8 * minSlots)
		if mem == nil {
			for j := range i {
				t.release(t.shards[j].slots.Load().mem)
			}
			return nil, errors.New("lookup: there is no memory for an empty table")
		}
		t.shards[i].slots.Store(&slots{mem: mem, words: words(mem)})
	}
	return t, nil
}

// Find looks a link up and fills rec in. It copies the record behind buf, and rec and
// extensions refer to that copy; grown is the larger buf, to be used again. It does not
// allocate once buf is large enough. Revision and Stamp are not kept, and are zero.
func (t *Table) Find(domain waypost.DomainID, code, buf []byte, rec *waypost.Record) (extensions, grown []byte, a Answer) {
	hash := t.hash(domain, code)
	s, parity, ok := t.enter()
	if !ok {
		return nil, buf, Unknown
	}
	grown, l, a := t.probe(s, hash, domain, code, buf)
	s.leave(parity)
	switch a {
	case Found:
		raw := grown[len(buf):]
		if !l.intact(raw) {
			s.damaged.Add(1)
			s.unknown.Add(1)
			return nil, grown, Unknown
		}
		if extensions, ok = l.decode(raw, rec); !ok {
			s.unknown.Add(1)
			return nil, grown, Unknown
		}
	case Absent:
		s.absent.Add(1)
	default:
		s.unknown.Add(1)
	}
	return extensions, grown, a
}

// probe is the part of Find that reads memory which the writer may retire.
func (t *Table) probe(s *stripe, hash uint64, domain waypost.DomainID, code, buf []byte) (grown []byte, l layout, a Answer) {
	phase := t.phase.Load()
	array := t.shards[hash>>(64-t.shardBits)].slots.Load()
	i := array.first(hash << t.shardBits)
	for range array.words {
		slot := atomic.LoadUint64(&array.words[i])
		if slot == empty {
			break
		}
		if slot != gone && (slot^hash<<offsetBits)&fingerprint == 0 {
			raw := t.at(offsetOf(slot))
			l, ok := layoutOf(raw)
			if ok && l.has(raw, domain, code) {
				if phase&1 == 0 && slot&recent == 0 { // fails if the slot was replaced just now
					atomic.CompareAndSwapUint64(&array.words[i], slot, slot|recent)
				}
				grown, l = l.expand(buf, raw)
				return grown, l, Found
			}
			// Another key with this fingerprint, one in eight million; or this key,
			// damaged.
			if !ok || !l.intact(raw) {
				s.damaged.Add(1)
				return buf, l, Unknown
			}
		}
		if i++; i == len(array.words) {
			i = 0
		}
	}
	// Complete before the search and still so after it: no entry was removed for another
	// in between, and no entry was missing.
	if phase&1 == 1 && t.phase.Load() == phase {
		return buf, l, Absent
	}
	if f := t.filter.Load(); f != nil && f.ready.Load() && !f.has(hash) {
		return buf, l, Absent
	}
	return buf, l, Unknown
}

// hash returns the hash of a key. Each table has its own seed, so that no client can
// choose codes that collide.
func (t *Table) hash(domain waypost.DomainID, name []byte) uint64 {
	hi, lo := bits.Mul64(maphash.Bytes(t.seed, name)^uint64(domain)*0x9e3779b97f4a7c15, 0xd1342543de82ef95)
	return hi ^ lo
}

// A slot is a word: 0 when it was never used, 1 when its entry was removed, or
//
//	63      recently read
//	62..40  fingerprint: the low bits of the key's hash
//	39..0   offset of the record, plus 2
//
// A search begins at the key's own slot and ends at one that was never used.
const (
	empty       = 0
	gone        = 1
	recent      = 1 << 63
	offsetBits  = 40
	offsetMask  = 1<<offsetBits - 1
	fingerprint = (1<<63 - 1) &^ offsetMask
	offsetBase  = 2
)

// maxBytes is the range of offsets.
const maxBytes = 1<<offsetBits - 1<<20

func slotOf(hash uint64, offset int64) uint64 {
	return hash<<offsetBits&fingerprint | uint64(offset+offsetBase)
}

func offsetOf(slot uint64) int64 { return int64(slot&offsetMask) - offsetBase }

// shard is a part of the table with its own slots, so that it grows alone.
type shard struct {
	slots atomic.Pointer[slots]

	// Owned by the writer.
	entries int
	filled  int // entries and removed ones
}

// slots is one array. Its words are read and written atomically.
type slots struct {
	mem   []byte
	words []uint64
}

// first returns the slot where the search for a hash begins. The highest bits of the hash
// choose the shard, the lowest are the fingerprint, and those between choose the slot.
func (s *slots) first(shifted uint64) int {
	hi, _ := bits.Mul64(shifted, uint64(len(s.words)))
	return int(hi)
}

// stripes is the number of places in which readers are counted.
const stripes = 64

// closedEpoch is the epoch of a closed table.
const closedEpoch = ^uint64(0)

// readers counts the readers of the table, so that no memory is reused under them.
type readers struct {
	stripes *[stripes]stripe
	epoch   atomic.Uint64 // moves when memory is retired
}

// stripe counts readers, in its own cache line. Readers of one epoch and of the next are
// counted apart, and enters apart from leaves, because their difference could not be read
// at one instant.
type stripe struct {
	enters  [2]atomic.Uint64
	leaves  [2]atomic.Uint64
	absent  atomic.Uint64 // answers
	unknown atomic.Uint64
	damaged atomic.Uint64
	_       [8]byte
}

// enter counts a reader in. Until the reader leaves, no memory that it can reach is
// reused. It returns false when the table is closed.
func (r *readers) enter() (s *stripe, parity uint64, ok bool) {
	// The address of the goroutine's stack differs between connections, and the key would
	// not when all ask for the same link.
	var here byte
	address := uint64(uintptr(unsafe.Pointer(&here)))
	s = &r.stripes[(address>>10)*0x9e3779b97f4a7c15>>58]
	for {
		epoch := r.epoch.Load()
		if epoch == closedEpoch {
			return nil, 0, false
		}
		s.enters[epoch&1].Add(1)
		// The epoch only moves when the writer retires memory, a whole segment at a time: a
		// second turn is rare, and a third one unheard of.
		if r.epoch.Load() == epoch {
			return s, epoch & 1, true
		}
		s.leaves[epoch&1].Add(1)
	}
}

func (s *stripe) leave(parity uint64) { s.leaves[parity].Add(1) }

// drained reports whether no reader is left that has entered in an epoch of that parity.
// The epoch must have moved on.
func (r *readers) drained(parity uint64) bool {
	for i := range r.stripes {
		s := &r.stripes[i]
		// A reader that has left before the first load has entered before the second.
		left := s.leaves[parity].Load()
		if s.enters[parity].Load() != left {
			return false
		}
	}
	return true
}

// segment is a part of the memory in which records lie, one after another. Once written,
// its bytes stay until no reader can reach them.
type segment struct {
	base atomic.Pointer[byte] // nil: not mapped

	// Owned by the writer.
	mem     []byte // all of it
	used    int    // bytes, from the first on
	records int    // that slots refer to
	live    int    // bytes of those
}

// at returns the bytes of a segment from an offset on.
func (a *arena) at(offset int64) []byte {
	i := offset >> a.segmentBits
	if uint64(i) >= uint64(len(a.segments)) {
		return nil
	}
	base := a.segments[i].base.Load()
	if base == nil {
		return nil
	}
	return unsafe.Slice(base, 1<<a.segmentBits)[offset&(1<<a.segmentBits-1):]
}

// Stats describes a table and counts its answers.
type Stats struct {
	Entries  int64
	Bytes    int64 // of memory mapped
	Complete bool
	Hits     uint64 // of Find
	Absent   uint64
	Unknown  uint64
	Damaged  uint64 // damaged records
}

// Stats returns numbers that are each right at some moment.
func (t *Table) Stats() Stats {
	st := Stats{
		Entries: t.entries.Load(), Bytes: t.mapped.Load(), Complete: t.phase.Load()&1 == 1,
		Damaged: uint64(t.damaged.Load()),
	}
	for i := range t.stripes {
		s := &t.stripes[i]
		others := s.absent.Load() + s.unknown.Load()
		if all := s.leaves[0].Load() + s.leaves[1].Load(); all > others {
			st.Hits += all - others
		}
		st.Absent += s.absent.Load()
		st.Unknown += s.unknown.Load()
		st.Damaged += s.damaged.Load()
	}
	return st
}

// IsComplete reports whether a key that the table does not hold is not in the store
// either.
func (t *Table) IsComplete() bool { return t.phase.Load()&1 == 1 }

// Close unmaps everything, once the readers have left. Later readers are told to ask the
// store.
func (t *Table) Close() { t.CloseSlowly(func() {}) }

// CloseSlowly is Close with a pause after every 2 MiB: to take a gigabyte back, the
// system needs a processor for a tenth of a second.
func (t *Table) CloseSlowly(pause func()) {
	if t.epoch.Swap(closedEpoch) == closedEpoch {
		return
	}
	// A reader stays for less than a microsecond, unless the system preempts its thread.
	for wait := time.Duration(0); !t.drained(0) || !t.drained(1); wait = min(wait+time.Microsecond, time.Millisecond) {
		runtime.Gosched()
		time.Sleep(wait)
	}
	free := func(mem []byte) {
		for len(mem) > hugePage {
			rest := len(mem) - hugePage
			t.release(mem[rest:])
			pause()
			mem = mem[:rest]
		}
		t.release(mem)
		pause()
	}
	t.releaseAll(free)
	for i := range t.shards {
		free(t.shards[i].slots.Load().mem)
	}
	if f := t.filter.Swap(nil); f != nil {
		free(f.mem)
	}
}

func (t *Table) closed() bool { return t.epoch.Load() == closedEpoch }

// Damage flips a bit of a link's record in the table, as bad memory might. It is for
// tests, and belongs to the writer.
func (t *Table) Damage(domain waypost.DomainID, code []byte) {
	if p := t.seek(t.hash(domain, code), domain, code); p.slot != empty {
		raw := t.at(offsetOf(p.slot))
		if l, ok := layoutOf(raw); ok {
			raw[l.end-1] ^= 1
		}
	}
}
