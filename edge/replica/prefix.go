package replica

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"sort"
	"strconv"

	"waypost"
)

// prefixes is which codes can have been issued, as the records of key ranges say. A lease
// moves its range's bound in the same transaction, so that the records of leases add nothing.
type prefixes struct {
	bits    []uint64    // of prefixes, by ordinal
	spans   []rangeNote // of which codes can have been issued, by prefix and lo
	unknown bool        // a range that cannot be read: any prefix may have codes
}

// rangeNote is what counts of a range: of its prefix counters from lo to below end were issued, or may be at
// any moment.
type rangeNote struct {
	prefix  int
	lo, end int64
	next    int64 // what lies below it is leased
	ahead   int64 // how far beyond that the next lease may reach
	bad     bool
}

func (r *rangeNote) codes() bool { return r.lo < r.end }

// Bounds of what the next lease of a range is taken to be, in counters: twice what leases usually have, and twice what the
// largest have (controlplane: defaultLeaseSize, maxLeaseSize).
const (
	minAhead = 2 * 10_000
	maxAhead = 2 * 1_000_000
)

// maxPrefix bounds the ordinals: three characters of base62.
const maxPrefix = 62 * 62 * 62

// noteRange takes the record of a key range into the writer's map. Fields that are not
// known are passed over. What cannot be understood makes every prefix one of which
// codes may have been issued.
func (st *store) noteRange(r *waypost.Record) {
	id := string(r.Name)
	before := st.ranges[id]
	delete(st.ranges, id)
	if r.State == waypost.Purged {
		return
	}
	var body struct {
		Prefix *int   `json:"prefix"`
		Lo     *int64 `json:"lo"`
		Hi     *int64 `json:"hi"`
		Next   *int64 `json:"next"`
		State  string `json:"state"`
	}
	err := json.Unmarshal(r.Payload, &body)
	if err != nil || body.Prefix == nil || *body.Prefix < 0 || *body.Prefix >= maxPrefix {
		st.ranges[id] = rangeNote{bad: true}
		st.health.log.Error("a key range cannot be understood", "range", strconv.QuoteToASCII(id), "error", err)
		return
	}
	note := rangeNote{prefix: *body.Prefix, lo: 0, end: math.MaxInt64}
	if body.Lo != nil && body.Next != nil && *body.Next >= *body.Lo {
		note.lo, note.next, note.end = *body.Lo, *body.Next, *body.Next
		if body.State != "retired" { // what is not leased yet may be by the next transaction
			note.ahead = max(minAhead, before.ahead)
			if leased := note.next - before.next; leased > 0 && before.prefix == note.prefix && before.ahead > 0 { // leases grow by doubling
				note.ahead = min(max(minAhead, 2*leased), maxAhead)
			}
			note.end += note.ahead
			if body.Hi != nil {
				note.end = max(note.next, min(note.end, *body.Hi))
			}
			note.end = max(note.end, note.lo+1) // the prefix is one of which codes are issued
		}
	}
	st.ranges[id] = note
}

// publishPrefixes lets readers see the writer's map.
func (st *store) publishPrefixes() {
	p := &prefixes{bits: make([]uint64, (maxPrefix+63)/64)}
	for _, r := range st.ranges {
		switch {
		case r.bad:
			p.unknown = true
		case r.codes():
			p.bits[r.prefix/64] |= 1 << (r.prefix % 64)
			p.spans = append(p.spans, r)
		}
	}
	slices.SortFunc(p.spans, func(a, b rangeNote) int { return cmp.Or(cmp.Compare(a.prefix, b.prefix), cmp.Compare(a.lo, b.lo)) })
	st.prefixes.Store(p)
}

// Issuable reports whether a code of a prefix can have been issued, as far as the
// replica has come: true when nothing speaks against it. It does not allocate and does
// not wait.
func (db *DB) Issuable(prefix int) bool {
	st := db.live.Load()
	if st == nil || prefix < 0 || prefix >= maxPrefix {
		return true
	}
	p := st.prefixes.Load()
	return p.unknown || p.bits[prefix/64]&(1<<(prefix%64)) != 0
}

// Issued reports whether the code of a prefix's counter can have been issued, as far as the replica has come, or is of
// the next lease: true when nothing speaks against it. It does not allocate and does not wait.
func (db *DB) Issued(prefix int, counter int64) bool {
	if !db.Issuable(prefix) {
		return false
	}
	st := db.live.Load()
	if st == nil {
		return true
	}
	p := st.prefixes.Load()
	if p.unknown {
		return true
	}
	for i := sort.Search(len(p.spans), func(i int) bool { return p.spans[i].prefix >= prefix }); i < len(p.spans) && p.spans[i].prefix == prefix; i++ {
		if p.spans[i].lo <= counter && counter < p.spans[i].end {
			return true
		}
	}
	return false
}
