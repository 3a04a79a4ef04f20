package replica

import (
	"hash/maphash"
	"sync/atomic"

	"waypost"
)

// wanted is where readers leave the names of links that they did not find in the
// lookup table, for someone to bring them there. Nobody waits for anybody: what
// there is no place for is left out, and will be asked for again if it matters.
type wanted struct {
	seed  maphash.Seed
	seen  [1 << 12]atomic.Uint32 // hashes of what was asked for before
	cells [256]cell
	wake  chan struct{} // gets a token when a cell was filled
}

// cell holds one name.
type cell struct {
	state  atomic.Uint32
	domain waypost.DomainID
	length int
	name   [waypost.MaxName]byte
}

const (
	cellFree uint32 = iota
	cellTaken
	cellFull
)

func newWanted() *wanted { return &wanted{seed: maphash.MakeSeed(), wake: make(chan struct{}, 1)} }

// add leaves a name, if it was asked for before, not too many others ago: of links
// that are asked for only once, the table has no use.
func (w *wanted) add(domain waypost.DomainID, name []byte) {
	hash := maphash.Bytes(w.seed, name) + uint64(domain)
	seen := &w.seen[hash%uint64(len(w.seen))]
	if mark := uint32(hash >> 32); seen.Load() != mark {
		seen.Store(mark)
		return
	}
	c := &w.cells[hash>>12%uint64(len(w.cells))]
	if len(name) > len(c.name) || !c.state.CompareAndSwap(cellFree, cellTaken) {
		return
	}
	c.domain, c.length = domain, copy(c.name[:], name)
	c.state.Store(cellFull)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take gives all names that were left, each good until use returns, and reports
// whether there were any. One goroutine calls it.
func (w *wanted) take(use func(linkName)) bool {
	any := false
	for i := range w.cells {
		c := &w.cells[i]
		if c.state.Load() != cellFull {
			continue
		}
		any = true
		use(linkName{c.domain, c.name[:c.length]})
		c.state.Store(cellFree)
	}
	return any
}
