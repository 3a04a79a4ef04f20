package replication

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"waypost"
)

// Run reads the source until ctx ends, then says bye to all followers, and returns ctx's
// error. A source that fails is tried again for as long as it takes. Followers stay
// connected in that time, and see the age of the head.
func (s *Server) Run(ctx context.Context) error {
	defer s.board.drain()
	t := tail{server: s, delay: s.cfg.MinPoll}
	for {
		changed := s.cfg.Source.Changed()
		wait := t.step(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			if t.failures == 0 { // a hint does not heal a source
				wait = time.Until(t.foundAt.Add(spacing))
			}
			if err := sleep(ctx, wait); err != nil {
				return err
			}
		case <-time.After(wait):
		}
	}
}

// spacing is the time between looks at a source that changes all the time. Every look
// that finds something costs the source a query, this server a signature, and each
// follower a frame to verify and a write, however small it is.
const spacing = 5 * time.Millisecond

// tail reads the newest part of the changelog. Only the goroutine of Run uses it.
type tail struct {
	server   *Server
	delay    time.Duration // to the next look, while the source answers
	failures int           // in a row
	headAt   time.Time     // when the head was last read
	foundAt  time.Time     // when a look has last found something
	more     bool          // there may be more than the last look has found

	generation uint32 // of the key that signed the batches that are passed on
}

// step looks at the source once and returns how long to wait for the next look.
func (t *tail) step(ctx context.Context) time.Duration {
	s := t.server
	moved, err := t.read(ctx)
	switch {
	case errors.Is(err, ErrNoSource):
		if s.board.suspend() {
			s.cfg.Logger.Info("turning followers away for now", "reason", err)
		}
		t.delay = s.cfg.MaxPoll
		return t.delay
	case err == nil && moved:
		t.delay, t.failures, t.foundAt = s.cfg.MinPoll, 0, time.Now()
		if t.more {
			return 0
		}
		return t.delay
	case err == nil:
		t.delay = min(2*t.delay, s.cfg.MaxPoll)
		t.failures = 0
		return t.delay
	case ctx.Err() != nil:
		return 0
	}
	s.metrics.failures.Inc()
	if t.failures++; t.failures == 1 {
		s.cfg.Logger.Warn("cannot read the changelog; followers wait", "error", err)
	}
	return min(s.cfg.MaxPoll<<min(t.failures-1, 5), 2*time.Second)
}

// read takes new transactions of the source, and its head when that is due.
func (t *tail) read(ctx context.Context) (moved bool, err error) {
	s := t.server
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()

	at, known := s.board.tail()
	_, relays := s.cfg.Source.(Relay)
	if generation := s.cfg.Trust.Generation(); relays && generation != t.generation {
		t.generation, known = generation, false // the ring is signed with another key
	}
	if !known || relays || time.Since(t.headAt) >= s.cfg.Heartbeat {
		head, err := s.cfg.Source.Head(ctx)
		if err != nil {
			return false, fmt.Errorf("read the head: %w", err)
		}
		t.headAt = time.Now()
		head, heartbeat := t.heartbeat(head)
		if !known || head.Position.Epoch != at.Epoch {
			s.board.restart(head, heartbeat)
			t.more = true
			return true, nil
		}
		s.board.setHead(head, heartbeat)
	}

	b, err := s.cfg.Source.Read(ctx, at, s.cfg.ReadRecords)
	switch {
	case errors.Is(err, ErrOtherHistory), errors.Is(err, ErrTrimmed):
		// The source has changed. Begin again at its head; each follower is judged by its
		// own position.
		head, headErr := s.cfg.Source.Head(ctx)
		if headErr != nil {
			return false, fmt.Errorf("read the head: %w", headErr)
		}
		s.cfg.Logger.Warn("judging followers again, because the changelog left its history", "error", err,
			"was", at, "is", head.Position)
		s.board.restart(t.heartbeat(head))
		t.more = true
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read the changelog: %w", err)
	case len(b.Transactions) == 0:
		return false, nil
	}
	if b.Epoch != at.Epoch || b.Transactions[0].Seq != at.Seq+1 {
		return false, fmt.Errorf("the source returned sequence %d after %d", b.Transactions[0].Seq, at.Seq)
	}
	es := s.encoder.entries(&b, s.cfg.Signer)
	s.cfg.Points.Hit("encode batch: done")
	if b.Frame == nil {
		s.metrics.encoded.Add(float64(len(es)))
	}
	s.board.addEntries(es)
	t.more = !b.AtHead
	return true, nil
}

// heartbeat signs a head and makes the heartbeat that all followers share.
func (t *tail) heartbeat(head Head) (signed Head, frame []byte) {
	s := t.server
	if s.cfg.Signer != nil {
		head.Signature = s.cfg.Signer.signHead(&head)
	}
	origin := head
	if r, ok := s.cfg.Source.(Relay); ok {
		origin = r.Origin()
	}
	return head, s.proven(&origin, plainFrame(frameHeartbeat, 0, appendHead(nil, &origin)))
}

// ring is the newest stretch of the changelog as frames, for all followers to share. It
// is bounded in bytes and in frames; a follower that needs older ones reads the source.
// It is not safe for concurrent use: the board's lock guards it.
type ring struct {
	maxFrames, maxBytes int

	base    waypost.Position // just before the first entry
	entries []ringEntry
	bytes   int
}

// ringEntry is a batch frame, or a transaction too large for one: then frame is nil, and
// a follower that reaches it is reset.
type ringEntry struct {
	after uint64 // the sequence before its first
	last  waypost.Position
	frame []byte
}

// restart empties the ring at p.
func (g *ring) restart(p waypost.Position) {
	g.base, g.entries, g.bytes = p, nil, 0
}

// tail returns the newest position that the ring holds.
func (g *ring) tail() waypost.Position {
	if n := len(g.entries); n > 0 {
		return g.entries[n-1].last
	}
	return g.base
}

func (g *ring) addEntries(es []ringEntry) {
	for _, e := range es {
		g.entries = append(g.entries, e)
		g.bytes += len(e.frame)
	}
	drop := 0
	for g.bytes > g.maxBytes && drop < len(g.entries) || len(g.entries)-drop > g.maxFrames {
		g.bytes -= len(g.entries[drop].frame)
		g.base = g.entries[drop].last
		g.entries[drop] = ringEntry{} // let the frame go now, not when the array does
		drop++
	}
	g.entries = g.entries[drop:]
}

// since returns up to limit entries that follow p, and whether p, with its stamp, is a
// boundary of the ring at all.
func (g *ring) since(p waypost.Position, limit int) (es []ringEntry, onRing bool) {
	if p == g.tail() {
		return nil, true
	}
	i := sort.Search(len(g.entries), func(i int) bool { return g.entries[i].after >= p.Seq })
	if i == len(g.entries) || g.entries[i].after != p.Seq {
		return nil, false
	}
	before := g.base
	if i > 0 {
		before = g.entries[i-1].last
	}
	if p != before {
		return nil, false
	}
	return append(es, g.entries[i:min(i+limit, len(g.entries))]...), true
}

// boundary returns the first sequence within [from, to] at which the ring can take over,
// and false without one.
func (g *ring) boundary(from, to uint64) (uint64, bool) {
	i := sort.Search(len(g.entries), func(i int) bool { return g.entries[i].after >= from })
	if i < len(g.entries) && g.entries[i].after <= to {
		return g.entries[i].after, true
	}
	if t := g.tail().Seq; t >= from && t <= to {
		return t, true
	}
	return 0, false
}

// entries turns a batch into ring entries of about frameTarget bytes, each signed if
// there is a signer. A batch that came as a frame stays one, with its signature.
func (e *encoder) entries(b *Batch, signer *Signer) []ringEntry {
	if b.Frame != nil {
		return []ringEntry{{after: b.Transactions[0].Seq - 1, last: b.Last(), frame: signed(&b.Signature, b.Frame)}}
	}
	var es []ringEntry
	for ts := b.Transactions; len(ts) > 0; {
		n, size := 1, batchHeaderSize+transactionSize(&ts[0])
		for n < len(ts) {
			more := transactionSize(&ts[n])
			if size+more > frameTarget {
				break
			}
			n, size = n+1, size+more
		}
		part := Batch{Epoch: b.Epoch, Transactions: ts[:n]}
		entry := ringEntry{after: ts[0].Seq - 1, last: part.Last()}
		if size <= maxFrame {
			payload := appendBatch(make([]byte, 0, size), b.Epoch, ts[:n])
			var signature Signature
			if signer != nil {
				signature = signer.signBatch(&part, payload)
			}
			entry.frame = signed(&signature, e.frame(frameBatch, 0, payload))
		}
		es = append(es, entry)
		ts = ts[n:]
	}
	return es
}
