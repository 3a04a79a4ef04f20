package replication

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"waypost"
)

// What a follower believes of a source, and of the time that it tells.

var (
	errLoop  = errors.New("the source has its changelog through this node")
	errAhead = errors.New("the peer is not where this replica is, or is behind it")
)

// maxVia bounds how many nodes are named, which is far more than a tree has levels.
const maxVia = 16

func viaHeader(nodes []string) string {
	return strings.Join(nodes[:min(len(nodes), maxVia)], ",")
}

func parseVia(header string) []string {
	if header == "" || len(header) > maxVia*(waypost.MaxNodeLength+1) {
		return nil
	}
	nodes := strings.SplitN(header, ",", maxVia+1)
	return nodes[:min(len(nodes), maxVia)]
}

// noteVia takes in where the source has its changelog from, and refuses one that has it from here.
func (f *Follower) noteVia(nodes []string) error {
	if f.cfg.Node != "" && slices.Contains(nodes, f.cfg.Node) {
		return fmt.Errorf("%w: %s", errLoop, strings.Join(nodes, ", "))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Via = nodes
	return nil
}

// readHello judges who is there, before anything from there is believed.
func (f *Follower) readHello(d *dial) error {
	t, _, payload, err := d.next()
	if err != nil {
		return fmt.Errorf("read the hello: %w", err)
	}
	if t != frameHello {
		return fmt.Errorf("%w: a %s where a hello must be", errFrame, t)
	}
	h, err := decodeHello(payload)
	if err != nil {
		return err
	}
	if !slices.Contains(f.speaks, h.protocol) {
		return fmt.Errorf("%w: it speaks %d, this node %s", ErrProtocol, h.protocol, versionList(f.speaks))
	}
	if own, ok := f.cfg.Sink.Cluster(); ok && own != h.head.Cluster {
		return fmt.Errorf("%w: %x, the replica holds %x", ErrOtherCluster, h.head.Cluster, own)
	}
	if p := f.cfg.Sink.Position(); h.head.Position.Epoch.Ordinal < p.Epoch.Ordinal {
		return fmt.Errorf("%w: epoch %d, the replica is in %d", errOlder, h.head.Position.Epoch.Ordinal, p.Epoch.Ordinal)
	}
	h.head.Signature = d.signed
	if err := f.cfg.Trust.meet(h.head.Cluster, d.key, f.cfg.Peer); err != nil {
		return err
	}
	if err := f.cfg.Trust.checkHead(&h.head, d.word); err != nil {
		return fmt.Errorf("the hello: %w", err)
	}
	if d.whole {
		if err := f.cfg.Trust.notBefore(&h.head, f.cfg.Sink); err != nil {
			return err
		}
	}
	if f.cfg.Peer {
		if err := f.judgePeer(&h.head); err != nil {
			return err
		}
	}
	d.hello = h.head
	f.noteHead(h.head)
	return nil
}

// judgePeer lets only those peers count that can take this replica on: of the newest history that
// was ever heard of here, and within that not behind. Positions of different epochs are not compared.
func (f *Follower) judgePeer(h *Head) error {
	f.mu.Lock()
	heard := f.status.Head.Position.Epoch
	f.mu.Unlock()
	own, at := f.cfg.Sink.Position(), h.Position
	switch {
	case at.Epoch.Ordinal < heard.Ordinal:
		return fmt.Errorf("%w: epoch %d, and epoch %d was heard of", errOlder, at.Epoch.Ordinal, heard.Ordinal)
	case at.Epoch.Ordinal > own.Epoch.Ordinal:
		return nil
	case at.Epoch != own.Epoch || at.Seq < own.Seq || at.Seq == own.Seq && at.Stamp != own.Stamp:
		return fmt.Errorf("%w: %v, this replica is at %v", errAhead, at, own)
	}
	return nil
}

// knowsBetter reports whether a reset says more about a peer than about this replica, which it
// cannot call to another history of their common epoch.
func (f *Follower) knowsBetter(d *dial, reset *resetError, p waypost.Position) bool {
	return f.cfg.Peer && reset.reason == ResetOtherHistory && d.hello.Position.Epoch == p.Epoch
}

// skip takes away the transactions up to p, which a frame that is passed on as it came may begin with.
func (b *Batch) skip(p waypost.Position) {
	first, last := b.Transactions[0].Seq, b.Last().Seq
	if b.Epoch == p.Epoch && first <= p.Seq && p.Seq < last && b.Transactions[p.Seq-first].Stamp == p.Stamp {
		b.Transactions = b.Transactions[p.Seq-first+1:]
	}
}

// noteHead takes in the origin's head. What comes through other nodes was true when the
// origin's clock says so, and not when it is heard; a head that is older than what is known says nothing.
func (f *Follower) noteHead(h Head) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	st := &f.status
	st.HeardAt = now
	relayed := len(st.Via) > 0
	known := st.Head
	if relayed && known.Position.Epoch.Ordinal >= h.Position.Epoch.Ordinal && known.At >= h.At {
		return
	}
	switch {
	case !relayed && (h.At > known.At || st.AdvancedAt.IsZero()):
		st.AdvancedAt = now
	case relayed && h.At > 0:
		if then := now.Add(-max(0, now.Sub(time.UnixMilli(h.At)))); then.After(st.AdvancedAt) {
			st.AdvancedAt = then
		}
	}
	st.Head = h
}

// Probe is what a source says of itself.
type Probe struct {
	Head   Head // how far it has come
	Origin Head // the origin's, as it has heard of it
	Via    []string
	Busy   bool // a snapshot cannot begin at once
}

// Ask looks at the source that cfg names as a follower would, and leaves again. It fails when
// a follower would not stay there either.
func Ask(ctx context.Context, cfg FollowConfig) (p Probe, err error) {
	f, err := NewFollower(cfg)
	if err != nil {
		return p, err
	}
	if cfg.Client == nil {
		defer f.client.CloseIdleConnections()
	}
	at := cfg.Sink.Position()
	d, err := f.connect(ctx, PathStream, url.Values{"after": {at.String()}}, at)
	if err != nil {
		return p, err
	}
	defer d.close()
	p.Head, p.Origin, p.Via, p.Busy = d.hello, d.hello, f.Status().Via, d.busy
	if at.IsZero() { // a reset comes next, and no heartbeat
		return p, nil
	}
	t, _, payload, err := d.next()
	if err == nil && t != frameHeartbeat {
		err = fmt.Errorf("%w: a %s where a heartbeat must be", errFrame, t)
	}
	if err == nil {
		p.Origin, err = decodeHeartbeat(payload)
	}
	return p, err
}
