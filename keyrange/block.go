package keyrange

// Block is the counters [Lo, Hi) of a prefix, leased to one node.
type Block struct {
	Prefix int // ordinal of the prefix
	Lo, Hi int64
}

// Len is the number of counters in the block.
func (b Block) Len() int64 { return max(0, b.Hi-b.Lo) }
