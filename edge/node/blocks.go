package node

import (
	"waypost/edge/blocks"
	"waypost/replication"
)

// newBlocks makes the blocks of codes, which are verified with the pinned key, and which
// gossip passes on.
func (e *edge) newBlocks() *blocks.Blocks {
	return blocks.New(blocks.Config{
		Check:  func(b *replication.SignedBlock) error { return e.store.trust.CheckBlock(b) },
		Pass:   func(encoded []byte) { e.gossip.pass(encoded) },
		Logger: e.log, Metrics: e.registry,
	})
}
