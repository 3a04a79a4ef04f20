package keyrange

import "waypost"

// Range is an interval of a prefix's counters that one region owns. Live ranges
// never overlap.
type Range struct {
	ID     int
	Prefix int // ordinal of the prefix
	Lo, Hi int64
	Next   int64 // the lowest counter that no block has taken yet; Lo ≤ Next ≤ Hi
	Region waypost.Region
}

// Left is the number of counters that no block has taken yet.
func (r Range) Left() int64 { return max(0, r.Hi-r.Next) }

// Block is the counters [Lo, Hi) of a range, leased to one node.
type Block struct {
	RangeID int
	Prefix  int // ordinal of the prefix
	Lo, Hi  int64
}

// Len is the number of counters in the block.
func (b Block) Len() int64 { return max(0, b.Hi-b.Lo) }
