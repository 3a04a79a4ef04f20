package gossip

import (
	"bytes"
	"context"
	"fmt"

	"github.com/hashicorp/memberlist"
)

// MaxMessage bounds a message of [Gossip.Spread], in bytes. It fits into one packet.
const MaxMessage = 1024

const (
	// spreadVersion begins a message of Spread, where news have newsVersion.
	spreadVersion = 2

	// spreadRetransmit is retransmit for these messages: a member of a fleet of ten is
	// missed once in some ten thousand times.
	spreadRetransmit = 10

	maxInbox  = 256 // messages that wait to be received
	maxSpread = 256 // messages that are being passed on; older ones are dropped
)

// Spread sends a message to all members at once, and also from one member to the next,
// because some are not reached directly. Packets may be lost, and Spread does not repeat
// them. The message itself must prove that it may be believed.
func (g *Gossip) Spread(message []byte) error {
	if len(message) > MaxMessage {
		return fmt.Errorf("gossip: a message of %d bytes is longer than %d", len(message), MaxMessage)
	}
	wire := append([]byte{spreadVersion}, message...)
	g.pass(wire)
	for _, n := range g.list.Members() {
		if n.Name != g.card.name() {
			_ = g.list.SendBestEffort(n, wire) // the others pass it on
		}
	}
	return nil
}

// Pass sends a message that this node has from elsewhere to some members.
func (g *Gossip) Pass(message []byte) {
	if len(message) <= MaxMessage {
		g.pass(append([]byte{spreadVersion}, message...))
	}
}

func (g *Gossip) pass(wire []byte) {
	g.spread.QueueBroadcast(spreading{wire})
	g.spread.Prune(maxSpread)
}

// queueMessage queues a message that came in. It does not block: excess messages are
// dropped.
func (g *Gossip) queueMessage(wire []byte) {
	if len(wire) > 1+MaxMessage || g.cfg.Receive == nil {
		g.metrics.refused.Inc()
		return
	}
	select {
	case g.inbox <- bytes.Clone(wire):
	default:
		g.metrics.refused.Inc()
	}
}

// receive hands messages to their receiver.
func (g *Gossip) receive(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case wire := <-g.inbox:
			g.cfg.Receive(wire[1:])
		}
	}
}

// spreading is a message in the queue.
type spreading struct{ wire []byte }

var _ memberlist.UniqueBroadcast = spreading{}

func (spreading) UniqueBroadcast()                      {}
func (spreading) Invalidates(memberlist.Broadcast) bool { return false }
func (s spreading) Message() []byte                     { return s.wire }
func (spreading) Finished()                             {}
