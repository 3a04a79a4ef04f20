package keyrange

import (
	"cmp"
	"slices"

	"waypost"
)

// State is what may be done with a range.
type State string

// The states of a range.
const (
	Live     State = "live"     // leases are taken from it
	Draining State = "draining" // no new leases; outstanding ones go on
	Retired  State = "retired"  // history: its counters may belong to other ranges
)

// Range is an interval of a prefix's counters that one region owns. Counters below
// Next are leased, and whether they were issued is of no concern here: they never
// change hands.
type Range struct {
	ID     int64 // 0 for a range that is not stored yet
	Prefix int   // ordinal of the prefix
	Lo, Hi int64 // counters [Lo, Hi)
	Next   int64 // the first counter that no lease holds: Lo to Hi
	Region waypost.Region
	State  State
}

// Remainder is the number of counters that no lease holds.
func (r Range) Remainder() int64 { return max(0, r.Hi-r.Next) }

// Validate checks a range by itself. The error is waypost.EInvalid.
func (r Range) Validate() error {
	switch {
	case r.Prefix < 0 || r.Lo < 0 || r.Lo >= r.Hi:
		return waypost.Errorf(waypost.EInvalid, "range %d, prefix %d, counters %d to %d, is no range", r.ID, r.Prefix, r.Lo, r.Hi)
	case r.Next < r.Lo || r.Next > r.Hi:
		return waypost.Errorf(waypost.EInvalid, "range %d goes on at counter %d, which is outside of %d to %d", r.ID, r.Next, r.Lo, r.Hi)
	case r.State != Live && r.State != Draining && r.State != Retired:
		return waypost.Errorf(waypost.EInvalid, "range %d has no known state: %q", r.ID, r.State)
	}
	if _, err := waypost.ParseRegion(string(r.Region)); err != nil {
		return waypost.Errorf(waypost.EInvalid, "range %d: %s", r.ID, waypost.MessageOf(err))
	}
	return nil
}

// Split cuts a range in two before a counter, a below and b from it on; b has no
// ID yet. Together they hold what r held, and what was leased stays in a. The error
// is waypost.EInvalid when one part would be empty, and waypost.EConflict when the
// counter is leased already or the range retired.
func Split(r Range, at int64) (a, b Range, err error) {
	if err := r.Validate(); err != nil {
		return Range{}, Range{}, err
	}
	if at <= r.Lo || at >= r.Hi {
		return Range{}, Range{}, waypost.Errorf(waypost.EInvalid, "range %d can be split at %d to %d, not at %d", r.ID, r.Lo+1, r.Hi-1, at)
	}
	if r.State == Retired {
		return Range{}, Range{}, waypost.Errorf(waypost.EConflict, "range %d is retired", r.ID)
	}
	if at < r.Next {
		return Range{}, Range{}, waypost.Errorf(waypost.EConflict, "range %d is leased up to counter %d already and cannot be split at %d", r.ID, r.Next, at)
	}
	a, b = r, r
	a.Hi = at
	b.ID, b.Lo, b.Next = 0, at, at
	return a, b, nil
}

// Disjoint checks that no counter lies in two ranges, of which retired ones do not
// count. The error is waypost.EConflict.
func Disjoint(ranges []Range) error {
	sorted := slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return r.State == Retired })
	slices.SortFunc(sorted, func(a, b Range) int {
		return cmp.Or(cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.ID, b.ID))
	})
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1], sorted[i]
		if a.Prefix == b.Prefix && b.Lo < a.Hi {
			return waypost.Errorf(waypost.EConflict, "ranges %d and %d of prefix %d both hold counter %d", a.ID, b.ID, a.Prefix, b.Lo)
		}
	}
	return nil
}
