package keyrange

import (
	"cmp"
	"slices"

	"waypost"
)

// State says which operations a range allows.
type State string

// The states of a range.
const (
	Live     State = "live"     // leases are taken from it
	Draining State = "draining" // no new leases; outstanding ones go on
	Retired  State = "retired"  // history: its counters may belong to other ranges
)

// Range is an interval of a prefix's counters that one region owns. Counters below Next
// are leased, issued or not, and never move to another region.
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

// Validate checks a range alone. The error is waypost.EInvalid.
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

// Disjoint checks that no counter lies in two ranges; it skips retired ranges. The error
// is waypost.EConflict.
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

// Block is the counters [Lo, Hi) of a prefix, leased to one node.
type Block struct {
	Prefix int // ordinal of the prefix
	Lo, Hi int64
}

// Len is the number of counters in the block.
func (b Block) Len() int64 { return max(0, b.Hi-b.Lo) }

// Step moves the upper end of one live range to another region: the counters from
// At up to Hi. It cuts the range in two where At lies within it.
type Step struct {
	Range    int64 // ID
	Prefix   int   // of the range, for people who read the plan
	At       int64 // 0: everything that is not leased when the step is done
	Hi       int64 // end of the range before the step
	Counters int64 // how many move; with At 0, how many would have at the time of planning
	From, To waypost.Region
}
