package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost/replication"
)

// hearBlock takes a block that another control plane has signed and sent by gossip. One
// goroutine calls it.
func (c *control) hearBlock(message []byte) {
	b, err := replication.DecodeBlock(message)
	if err == nil {
		if held, known := c.blocked.Get(b.Host, b.Code); known && !b.Newer(&held) {
			return
		}
		err = c.signer.CheckBlock(&b)
	}
	if err == nil {
		_, err = c.blocked.Take(c.signer.SignBlock(b.Block)) // with the present key
	}
	// Anyone in the gossip can send any number.
	if now := time.Now(); err != nil && now.Sub(c.blockRefused) >= time.Second {
		c.blockRefused = now
		c.log.Warn("refused a block that came by gossip", "error", err)
	}
}

// spreadBlocks sends every block by gossip as well, for edges with a stalled stream.
func (c *control) spreadBlocks(ctx context.Context) {
	if c.gossip == nil {
		return
	}
	c.blocked.Follow(ctx, func(b *replication.SignedBlock) {
		if err := c.gossip.Spread(replication.AppendBlock(nil, b)); err != nil {
			c.log.Error("cannot send a block by gossip", "error", err)
		}
	})
}

// blockCount shows how many codes are blocked.
func blockCount(blocks *replication.BlockSet) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waypost_blocks", Help: "Codes that are blocked on this node.",
	}, func() float64 { return float64(blocks.Active()) })
}
