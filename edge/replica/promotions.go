package replica

import (
	"hash/maphash"
	"sync/atomic"

	"waypost"
)

// promotions is a queue of links that readers did not find in the lookup table. The
// filler promotes them to it. No reader waits: a link for which there is no place is left
// out, and will be asked for again if it matters.
type promotions struct {
	seed  maphash.Seed
	seen  [1 << 12]atomic.Uint32 // hashes of links that were asked for before
	cells [256]cell
	wake  chan struct{} // gets a token when a cell was filled
}

// cell holds one name. Its state says who owns the other fields: the reader that takes a
// free cell, and the filler once it is full.
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

func newPromotions() *promotions {
	return &promotions{seed: maphash.MakeSeed(), wake: make(chan struct{}, 1)}
}

// queueLink queues a link, if it was asked for before and few others since: the table has
// no use for links that are asked for only once.
func (p *promotions) queueLink(domain waypost.DomainID, name []byte) {
	hash := maphash.Bytes(p.seed, name) + uint64(domain)
	seen := &p.seen[hash%uint64(len(p.seen))]
	if mark := uint32(hash >> 32); seen.Load() != mark {
		seen.Store(mark)
		return
	}
	c := &p.cells[hash>>12%uint64(len(p.cells))]
	if len(name) > len(c.name) || !c.state.CompareAndSwap(cellFree, cellTaken) {
		return
	}
	c.domain, c.length = domain, copy(c.name[:], name)
	c.state.Store(cellFull)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// takeLinks removes all queued links, each valid until use returns, and reports whether
// there were any. One goroutine calls it.
func (p *promotions) takeLinks(use func(linkName)) bool {
	found := false
	for i := range p.cells {
		c := &p.cells[i]
		if c.state.Load() != cellFull {
			continue
		}
		found = true
		use(linkName{c.domain, c.name[:c.length]})
		c.state.Store(cellFree)
	}
	return found
}
