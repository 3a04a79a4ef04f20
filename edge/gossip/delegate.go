package gossip

import (
	"errors"

	"github.com/hashicorp/memberlist"
)

// delegate receives the calls of memberlist. They come under memberlist's locks and on
// its receiving goroutines, so nothing here blocks, logs, or calls back.
type delegate struct{ g *Gossip }

var (
	_ memberlist.Delegate      = delegate{}
	_ memberlist.EventDelegate = delegate{}
	_ memberlist.AliveDelegate = delegate{}
)

var errName = errors.New("the name is not that of the card")

// NotifyAlive refuses a member if its card cannot be read or belongs to another name, or
// if the table has no room for it.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	c, err := decodeCard(n.Meta)
	if err == nil && c.name() != n.Name {
		err = errName
	}
	if err == nil {
		err = d.g.table.admit(c.news.boot)
	}
	if err != nil {
		d.g.metrics.refused.Inc()
	}
	return err
}

// NotifyJoin comes only for nodes that NotifyAlive let through.
func (d delegate) NotifyJoin(n *memberlist.Node) {
	if c, err := decodeCard(n.Meta); err == nil && d.g.table.joined(c, n.Address()) {
		d.g.logLater("noticed a new member", c)
	}
}

// NotifyUpdate has nothing to do: a boot keeps its card.
func (d delegate) NotifyUpdate(*memberlist.Node) {}

func (d delegate) NotifyLeave(n *memberlist.Node) {
	boot, ok := bootOf(n.Name)
	if !ok {
		return
	}
	switch e, replaced, changed := d.g.table.gone(boot); {
	case !changed:
	case e.state == StateLeft:
		d.g.logLater("noticed that a member left", e.card)
	case replaced:
		d.g.logLater("noticed a restarted member", e.card)
	default:
		d.g.logLater("noticed a dead member", e.card)
	}
}

// NodeMeta returns the card. memberlist asks at the start only.
func (d delegate) NodeMeta(int) []byte { return d.g.card.append(nil) }

// NotifyMsg takes one message. It passes news on and drops known messages, so that every
// message dies out.
func (d delegate) NotifyMsg(b []byte) {
	if len(b) > 0 && b[0] == spreadVersion {
		d.g.queueMessage(b)
		return
	}
	n, err := decodeMessage(b)
	if err != nil {
		d.g.metrics.refused.Inc()
		return
	}
	if d.g.table.hear(n) {
		d.g.queue.QueueBroadcast(broadcast{n})
	}
}

func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	all := d.g.spread.GetBroadcasts(overhead, limit)
	for _, m := range all {
		limit -= overhead + len(m)
	}
	if limit <= 0 {
		return all
	}
	return append(all, d.g.queue.GetBroadcasts(overhead, limit)...)
}

// LocalState returns all known news, in exchange for MergeRemoteState's.
func (d delegate) LocalState(bool) []byte {
	return appendState(nil, append(d.g.table.news(), d.g.latest()))
}

// MergeRemoteState takes the state of another member. It passes nothing on, because all
// members exchange states.
func (d delegate) MergeRemoteState(b []byte, _ bool) {
	all, err := decodeState(b, d.g.cfg.MaxMembers+1)
	if err != nil {
		d.g.metrics.refused.Inc()
		return
	}
	for _, n := range all {
		d.g.table.hear(n)
	}
}

// broadcast is news in the queue, where it replaces older news of the same boot.
type broadcast struct{ news news }

var _ memberlist.NamedBroadcast = broadcast{}

func (b broadcast) Name() string    { return string(b.news.boot[:]) }
func (b broadcast) Message() []byte { return b.news.message() }
func (b broadcast) Finished()       {}

func (b broadcast) Invalidates(other memberlist.Broadcast) bool {
	o, ok := other.(broadcast)
	return ok && o.news.boot == b.news.boot
}
