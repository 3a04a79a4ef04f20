package lookup

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"waypost"
)

// MinBudget is the least that a table works with, in bytes.
const MinBudget = 1 << 20

// Config configures a [Table].
type Config struct {
	Budget *Budget // required: MinBudget or more
	Leave  int64   // bytes of the budget that the table leaves to others
}

// Answer is what the table knows of a key.
type Answer uint8

const (
	Unknown Answer = iota // nothing: ask the store
	Found                 // the record
	Absent                // the store has no such record
)

// Table holds records of links. Find and Stats may be called by any number of
// goroutines; all other methods are the writer's, of whom there is one at a time.
//
// A new table is loading: it takes what it is given by Put and Load. Complete says
// that this is all there is, so that what it does not hold is Absent. When its budget
// does not suffice it is bounded from then on: it holds what was read of late, and a
// filter of all keys tells most of those that are absent.
type Table struct {
	budget      *Budget
	seed        maphash.Seed
	shardBits   int
	segmentBits int
	shards      []shard
	segments    []segment
	stripes     *[stripes]stripe

	epoch  atomic.Uint64 // moves when memory is retired
	phase  atomic.Uint64 // odd: complete
	filter atomic.Pointer[filter]

	entries  atomic.Int64
	mapped   atomic.Int64 // bytes
	damaged  atomic.Int64 // entries taken out because they were not what was written
	unmapped atomic.Int64 // times that the system refused or kept memory

	// The writer's own:
	leave      int64 // bytes of the budget that are left to others
	bounded    bool
	noFilter   bool
	head       int   // the segment being written; -1: none
	sealed     []int // full segments, the oldest first
	free       []int // mapped segments that nobody can see
	limbo      []retired
	stuck      bool // readers have not left in the time that was given to them
	lastMapped int
	used, live int64 // bytes of records: all that were written, and those that slots refer to
	buf        []byte
}

// New makes an empty table, which maps little until it is filled.
func New(cfg Config) (*Table, error) {
	limit := min(cfg.Budget.limit, maxBytes)
	if limit < MinBudget {
		return nil, fmt.Errorf("lookup: a budget of %d bytes is less than %d", limit, MinBudget)
	}
	t := &Table{
		budget: cfg.Budget, leave: cfg.Leave, seed: maphash.MakeSeed(), head: -1,
		shardBits:   min(max(bits.Len64(uint64(limit>>18)), 4), 10),
		segmentBits: min(max(bits.Len64(uint64(limit>>7)), 16), 21),
		stripes:     new([stripes]stripe),
		buf:         make([]byte, 0, maxRecord),
	}
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

// hash of a key. It is seeded anew for each table, so that nobody can choose codes
// that fall together.
func (t *Table) hash(domain waypost.DomainID, name []byte) uint64 {
	hi, lo := bits.Mul64(maphash.Bytes(t.seed, name)^uint64(domain)*0x9e3779b97f4a7c15, 0xd1342543de82ef95)
	return hi ^ lo
}

// Find looks a link up. It copies what it finds behind buf, and rec and extensions
// refer to that copy; buf comes back grown, to be used again. It does not allocate
// once buf is large enough. Revision and Stamp are not kept, and are zero.
func (t *Table) Find(domain waypost.DomainID, code, buf []byte) (rec waypost.Record, extensions, grown []byte, a Answer) {
	hash := t.hash(domain, code)
	s, parity, ok := t.enter()
	if !ok {
		return rec, nil, buf, Unknown
	}
	grown, l, a := t.probe(s, hash, domain, code, buf)
	s.leave(parity)
	switch a {
	case Found:
		raw := grown[len(buf):]
		if !l.intact(raw) {
			s.damaged.Add(1)
			s.unknown.Add(1)
			return rec, nil, grown, Unknown
		}
		if extensions, ok = l.decode(raw, &rec); !ok {
			s.unknown.Add(1)
			return rec, nil, grown, Unknown
		}
	case Absent:
		s.absent.Add(1)
	default:
		s.unknown.Add(1)
	}
	return rec, extensions, grown, a
}

// probe is the part of Find that looks at memory which the writer may retire.
func (t *Table) probe(s *stripe, hash uint64, domain waypost.DomainID, code, buf []byte) (grown []byte, l layout, a Answer) {
	phase := t.phase.Load()
	words := t.shards[hash>>(64-t.shardBits)].slots.Load()
	i := words.first(hash << t.shardBits)
	for range words.words {
		slot := atomic.LoadUint64(&words.words[i])
		if slot == empty {
			break
		}
		if slot != gone && (slot^hash<<offsetBits)&fingerprint == 0 {
			raw := t.at(offsetOf(slot))
			l, ok := layoutOf(raw)
			if ok && l.has(raw, domain, code) {
				if phase&1 == 0 && slot&recent == 0 { // may fail: then it was replaced just now
					atomic.CompareAndSwapUint64(&words.words[i], slot, slot|recent)
				}
				grown, l = l.expand(buf, raw)
				return grown, l, Found
			}
			// Another key with this fingerprint, one in eight million; or this one,
			// damaged.
			if !ok || !l.intact(raw) {
				s.damaged.Add(1)
				return buf, l, Unknown
			}
		}
		if i++; i == len(words.words) {
			i = 0
		}
	}
	// Complete before the search and still so after it: in between no entry made way
	// for another, and none was missing.
	if phase&1 == 1 && t.phase.Load() == phase {
		return buf, l, Absent
	}
	if f := t.filter.Load(); f != nil && f.ready.Load() && !f.has(hash) {
		return buf, l, Absent
	}
	return buf, l, Unknown
}

// Stats is what a table holds and has answered.
type Stats struct {
	Entries  int64
	Bytes    int64 // of memory mapped
	Complete bool
	Filtered bool   // a filter answers for what is not here
	Hits     uint64 // of Find
	Absent   uint64
	Unknown  uint64
	Damaged  uint64 // records that were not what was written
	Refused  int64  // times that the system gave no memory although the budget had some
}

// Stats gives numbers that are each right at some moment.
func (t *Table) Stats() Stats {
	st := Stats{
		Entries: t.entries.Load(), Bytes: t.mapped.Load(), Complete: t.phase.Load()&1 == 1,
		Damaged: uint64(t.damaged.Load()), Refused: t.unmapped.Load(),
	}
	if f := t.filter.Load(); f != nil {
		st.Filtered = f.ready.Load()
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

// IsComplete reports whether what the table does not hold is not in the store
// either. It may be asked by anyone.
func (t *Table) IsComplete() bool { return t.phase.Load()&1 == 1 }

// Damage flips a bit of what the table holds of a link, as bad memory might. It is
// for tests that show what becomes of that, and the writer's.
func (t *Table) Damage(domain waypost.DomainID, code []byte) {
	if p := t.seek(t.hash(domain, code), domain, code); p.slot != empty {
		raw := t.at(offsetOf(p.slot))
		if l, ok := layoutOf(raw); ok {
			raw[l.end-1] ^= 1
		}
	}
}
