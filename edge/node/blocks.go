package node

import (
	"waypost"
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

// isDefault reports whether a host is known to be the host of the default domain.
func (h *handle) isDefault(host string) bool {
	db := h.current()
	if db == nil {
		return false
	}
	_, holds := db.Cluster()
	id, _, known := db.Domain([]byte(host))
	return holds && known && id == waypost.DefaultDomain
}
