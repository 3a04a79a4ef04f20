package replica

import (
	"encoding/json"
	"strconv"

	"waypost"
)

// prefixes is which prefixes codes can have been issued of, as the records of key
// ranges say. A lease moves its range's bound in the same transaction, so that the
// records of leases add nothing.
type prefixes struct {
	bits    []uint64 // by ordinal
	unknown bool     // a range that cannot be read: any prefix may have codes
}

// rangeNote is what counts of a range.
type rangeNote struct {
	prefix int
	codes  bool // some were issued, or may be at any moment
	bad    bool
}

// maxPrefix bounds the ordinals: three characters of base62.
const maxPrefix = 62 * 62 * 62

// noteRange takes the record of a key range into the writer's map. Fields that are not
// known are passed over. What cannot be understood makes every prefix one of which
// codes may have been issued.
func (st *store) noteRange(r *waypost.Record) {
	id := string(r.Name)
	delete(st.ranges, id)
	if r.State == waypost.Purged {
		return
	}
	var body struct {
		Prefix *int   `json:"prefix"`
		Lo     *int64 `json:"lo"`
		Next   *int64 `json:"next"`
		State  string `json:"state"`
	}
	err := json.Unmarshal(r.Payload, &body)
	if err != nil || body.Prefix == nil || *body.Prefix < 0 || *body.Prefix >= maxPrefix {
		st.ranges[id] = rangeNote{bad: true}
		st.health.log.Error("a key range cannot be understood", "range", strconv.QuoteToASCII(id), "error", err)
		return
	}
	// What is not leased yet may be by the next transaction, unless the range is over.
	unused := body.State == "retired" && body.Lo != nil && body.Next != nil && *body.Next <= *body.Lo
	st.ranges[id] = rangeNote{prefix: *body.Prefix, codes: !unused}
}

// publishPrefixes lets readers see the writer's map.
func (st *store) publishPrefixes() {
	p := &prefixes{bits: make([]uint64, (maxPrefix+63)/64)}
	for _, r := range st.ranges {
		switch {
		case r.bad:
			p.unknown = true
		case r.codes:
			p.bits[r.prefix/64] |= 1 << (r.prefix % 64)
		}
	}
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
