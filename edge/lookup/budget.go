package lookup

import "sync/atomic"

// Budget bounds the memory that the tables which share it map together, in bytes.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget makes a budget of so many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// Limit is what may be used.
func (b *Budget) Limit() int64 { return b.limit }

// Used is what is mapped now.
func (b *Budget) Used() int64 { return b.used.Load() }

// take claims n bytes, unless fewer than leave would then be left.
func (b *Budget) take(n, leave int64) bool {
	if b.used.Add(n) > b.limit-leave {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *Budget) give(n int64) { b.used.Add(-n) }
