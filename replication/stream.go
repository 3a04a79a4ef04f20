package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"waypost"
)

// errEnded says that the follower was told the reason, and that the connection is over.
var errEnded = errors.New("the stream has ended")

// Stream answers GET ?after=POSITION with the changelog from there on, for as long as the
// follower takes it. The response writer must support write deadlines and flushing
// (http.ResponseController).
func (s *Server) Stream(w http.ResponseWriter, r *http.Request) {
	var after waypost.Position
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = waypost.ParsePosition(text); err != nil {
			http.Error(w, waypost.MessageOf(err), http.StatusBadRequest)
			return
		}
	}
	head, err := s.board.admit()
	if err != nil {
		refuse(w, err)
		return
	}
	defer s.board.leave()
	if err := s.hear(r); err != nil {
		refuse(w, err)
		return
	}
	select {
	case s.followers <- struct{}{}:
		s.metrics.followers.Inc()
		defer func() { s.metrics.followers.Dec(); <-s.followers }()
	default:
		refuse(w, errors.New("too many followers"))
		return
	}
	if s.snapshots.busy() {
		w.Header().Set(HeaderBusy, "1")
	}
	c := s.open(w, r, head)
	c.log.Info("accepted a follower", "after", after)
	err = c.follow(r.Context(), after)
	c.close(r.Context(), err)
}

// refuse asks a follower to come again.
func refuse(w http.ResponseWriter, why error) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, why.Error(), http.StatusServiceUnavailable)
}

// followerConn is one follower's request. One goroutine uses it.
type followerConn struct {
	server *Server
	ctx    context.Context //nolint:containedctx // of the request
	w      http.ResponseWriter
	rc     *http.ResponseController
	log    *slog.Logger
	hello  Head
	turn   *turn // to read slots; nil on the stream
	torn   bool  // a frame was not sent to its end

	digest string // of the follower's blocks; "": it takes none
	blocks uint64 // place of the last block that it has
}

func (s *Server) open(w http.ResponseWriter, r *http.Request, head Head) *followerConn {
	h := w.Header()
	h.Set("Content-Type", ContentType)
	if s.cfg.Via != nil {
		h.Set(HeaderVia, viaHeader(s.cfg.Via()))
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that holds frames back looks like a dead peer
	return &followerConn{
		server: s, ctx: r.Context(), w: w, rc: http.NewResponseController(w), hello: head,
		log:    s.cfg.Logger.With("node", bounded(r.Header.Get(HeaderNode)), "region", bounded(r.Header.Get(HeaderRegion))),
		digest: r.URL.Query().Get(queryBlocks),
	}
}

func bounded(s string) string { return s[:min(len(s), 64)] }

// close logs how a connection ended, and sends the reason to a follower that is sent
// away.
func (c *followerConn) close(ctx context.Context, err error) {
	end, sentAway := errors.AsType[*EndError](context.Cause(ctx))
	switch {
	case errors.Is(err, errEnded):
	case sentAway:
		c.log.Warn("sent a follower away", "reason", end.Text)
		c.sendAway(end.Text)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.server.metrics.slow.Inc()
		c.log.Warn("dropped a follower that takes frames too slowly")
	case ctx.Err() != nil:
		c.log.Info("ended the stream of a follower that left")
	default:
		c.log.Info("lost a follower", "error", err)
	}
}

// writeChunk is the most that a follower must take within WriteTimeout, in bytes.
const writeChunk = 256 << 10

// send writes one frame and flushes it. A follower that does not take it in time is
// dropped: nothing is held for it. A follower that is sent away receives no further
// frames.
func (c *followerConn) send(t frameType, frame []byte) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.server.metrics.sent.WithLabelValues(t.String()).Inc()
	c.server.metrics.bytes.Add(float64(len(frame)))
	for {
		n := min(len(frame), writeChunk)
		if err := c.write(frame[:n]); err != nil {
			return err
		}
		if frame = frame[n:]; len(frame) == 0 {
			return c.flush()
		}
		if err := c.ctx.Err(); err != nil {
			c.torn = true
			return err
		}
	}
}

func (c *followerConn) write(b []byte) error {
	if err := c.rc.SetWriteDeadline(time.Now().Add(c.server.cfg.WriteTimeout)); err != nil {
		return fmt.Errorf("set a write deadline: %w", err)
	}
	if _, err := c.w.Write(b); err != nil {
		return fmt.Errorf("write a frame: %w", err)
	}
	return nil
}

func (c *followerConn) flush() error {
	if err := c.rc.Flush(); err != nil {
		return fmt.Errorf("flush a frame: %w", err)
	}
	return nil
}

// sendAway sends a follower the reason why it has to go. A failure changes nothing.
func (c *followerConn) sendAway(why string) {
	if c.torn {
		return
	}
	if err := errors.Join(c.write(byeFrame(why)), c.flush()); err != nil {
		c.log.Debug("cannot send the reason to a follower that is sent away", "error", err)
	}
}

func (c *followerConn) sendHello() error {
	hello := c.server.proven(&c.hello, plainFrame(frameHello, 0, appendHello(nil, &c.hello)))
	if key := c.server.announced(); key != nil {
		hello = append(plainFrame(frameKey, 0, key), hello...)
	}
	if err := c.send(frameHello, hello); err != nil {
		return err
	}
	if c.digest == "" || c.server.cfg.Blocks == nil {
		return nil
	}
	if order := c.server.cfg.Blocks.Order(); c.digest == blocksDigest(c.server.cfg.Blocks) {
		c.blocks = order // what came between the two is sent again
	}
	return c.sendBlocks()
}

// queryBlocks carries the digest of a follower's blocks.
const queryBlocks = "blocks"

func blocksDigest(s *BlockSet) string { return strconv.FormatUint(s.Digest(), 16) }

// sendBlocks sends the blocks that the follower does not have yet.
func (c *followerConn) sendBlocks() error {
	if c.digest == "" || c.server.cfg.Blocks == nil {
		return nil
	}
	for {
		all, order := c.server.cfg.Blocks.Since(c.blocks, blocksInFrame)
		if len(all) == 0 {
			return nil
		}
		if err := c.send(frameBlocks, c.server.encoder.frame(frameBlocks, 0, appendBlocks(nil, all))); err != nil {
			return err
		}
		c.blocks = order
	}
}

func (c *followerConn) reset(reason ResetReason, text string) error {
	c.server.metrics.resets.WithLabelValues(reason.String()).Inc()
	c.log.Info("asking a follower to take a snapshot", "reason", reason.String())
	if err := c.send(frameReset, plainFrame(frameReset, 0, appendReset(nil, reason, text))); err != nil {
		return err
	}
	return errEnded
}

// bye ends the connection; why is "" when the server drains.
func (c *followerConn) bye(why string) error {
	if err := c.send(frameBye, byeFrame(why)); err != nil {
		return err
	}
	return errEnded
}

func byeFrame(why string) []byte {
	return plainFrame(frameBye, 0, []byte(why[:min(len(why), maxResetText)]))
}

// follow sends the changelog after p until something ends it.
func (c *followerConn) follow(ctx context.Context, p waypost.Position) error {
	if err := c.sendHello(); err != nil {
		return err
	}
	if p.IsZero() {
		return c.reset(ResetNoPosition, "there is no position to go on from")
	}
	s := c.server
	beat := time.NewTicker(s.cfg.Heartbeat)
	defer beat.Stop()
	// The first heartbeat comes at once, so that a follower at the head knows that it is.
	if err := c.send(frameHeartbeat, s.board.view(p).heartbeat); err != nil {
		return err
	}
	failures := 0
	var asked reportRequest
	for {
		v := s.board.view(p)
		if err := c.sendBlocks(); err != nil { // after the view, whose wake a later block closes
			return err
		}
		if v.asked != asked && v.asked.at.Epoch == p.Epoch && v.asked.at.Seq <= p.Seq {
			if err := c.send(frameReport, plainFrame(frameReport, 0, nil)); err != nil {
				return err
			}
			asked = v.asked
		}
		select {
		case <-beat.C:
			if err := c.send(frameHeartbeat, v.heartbeat); err != nil {
				return err
			}
		default:
		}
		wait := time.Duration(-1) // until woken
		switch {
		case v.draining, v.unfit:
			return c.bye("")
		case v.onRing && len(v.entries) > 0:
			next, err := c.sendEntries(v.entries, p, "send batch: sent")
			if err != nil {
				return err
			}
			p = next
			continue
		case !v.onRing: // behind it, ahead of it, or of another history: ask the source
			next, err := c.catchUp(ctx, p)
			switch {
			case errors.Is(err, errSource):
				failures++
				wait = min(s.cfg.MaxPoll<<min(failures-1, 5), 2*time.Second)
			case err != nil:
				return err
			case next == p:
				wait = s.cfg.MinPoll // ahead of the ring, which will come
			default:
				failures, p = 0, next
				continue
			}
		}
		if err := c.pause(ctx, v, beat.C, wait); err != nil {
			return err
		}
	}
}

// sendEntries sends batches, and returns the position that the follower then has.
func (c *followerConn) sendEntries(es []ringEntry, p waypost.Position, point string) (waypost.Position, error) {
	for _, e := range es {
		if e.frame == nil {
			return p, c.reset(ResetTooLarge, "a transaction is too large to be sent")
		}
		if err := c.send(frameBatch, e.frame); err != nil {
			return p, err
		}
		p = e.last
		c.server.cfg.Points.Hit(point)
	}
	return p, nil
}

// pause waits for news, for a heartbeat to be due, which it sends, or for the wait to
// end; a negative wait has no end.
func (c *followerConn) pause(ctx context.Context, v view, beat <-chan time.Time, wait time.Duration) error {
	var expired <-chan time.Time
	if wait >= 0 {
		expired = time.After(wait)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-expired:
	case <-v.wake:
	case <-beat:
		return c.send(frameHeartbeat, c.server.board.view(waypost.Position{}).heartbeat)
	}
	return nil
}

// errSource says that the source did not answer; it may answer later.
var errSource = errors.New("the source does not answer")

// catchUp sends the transactions after p from the source itself, until the ring can take
// over, and returns the position reached.
func (c *followerConn) catchUp(ctx context.Context, p waypost.Position) (waypost.Position, error) {
	entries, claimed, err := c.readSource(ctx, p)
	defer func() { c.server.unsent.Release(claimed) }()
	switch {
	case errors.Is(err, ErrTrimmed):
		return p, c.reset(ResetTrimmed, err.Error())
	case errors.Is(err, ErrOtherHistory):
		return p, c.reset(ResetOtherHistory, err.Error())
	case errors.Is(err, ErrBehind), errors.Is(err, ErrNoSource):
		return p, c.bye("")
	case ctx.Err() != nil:
		return p, ctx.Err()
	case errors.Is(err, errCrowded):
		return p, errSource
	case err != nil:
		c.server.metrics.failures.Inc()
		c.log.Warn("cannot read the changelog for a follower that is behind", "error", err)
		return p, errSource
	}
	return c.sendEntries(entries, p, "send batch: sent behind the others")
}

// errCrowded says that other followers use all the memory for unsent frames.
var errCrowded = errors.New("too many frames wait for followers that are behind")

// readSource holds one of few tokens, so that a herd of followers that are behind does
// not flood the source. The connection holds the entries until they are sent, and then
// returns the claimed memory.
func (c *followerConn) readSource(ctx context.Context, p waypost.Position) (es []ringEntry, claimed int64, err error) {
	s := c.server
	select {
	case s.catchUps <- struct{}{}:
		defer func() { <-s.catchUps }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	b, err := s.cfg.Source.Read(ctx, p, s.cfg.ReadRecords)
	if err != nil || len(b.Transactions) == 0 {
		return nil, 0, err
	}
	if b.Epoch != p.Epoch || b.Transactions[0].Seq != p.Seq+1 {
		return nil, 0, fmt.Errorf("the source returned sequence %d after %d", b.Transactions[0].Seq, p.Seq)
	}
	// Stop where a shared frame begins. Otherwise this follower would stay between the
	// frames of the ring, and go on reading the source for itself.
	end, ok := s.board.boundary(b.Transactions[0].Seq, b.Last().Seq)
	if ok && b.Frame == nil { // a batch that came as a frame ends where a shared one does
		b.Transactions = b.Transactions[:end-p.Seq]
	}
	return s.claim(s.encoder.entries(&b, s.cfg.Signer))
}

// usualFrame bounds a frame that is not made of a large transaction, in bytes, with its
// header and its signature.
const usualFrame = frameTarget + 4<<10

// claim keeps the first entries for which memory is left, so that a herd of slow
// followers does not fill the memory. One usual frame is always kept, uncounted if there
// is no room, so that slow followers hold up no others. The follower reads the rest
// again.
func (s *Server) claim(es []ringEntry) (kept []ringEntry, claimed int64, err error) {
	for len(kept) < len(es) && s.unsent.TryAcquire(int64(len(es[len(kept)].frame))) {
		claimed += int64(len(es[len(kept)].frame))
		kept = es[:len(kept)+1]
	}
	if len(kept) == 0 {
		if len(es[0].frame) > usualFrame {
			return nil, 0, errCrowded
		}
		kept = es[:1]
	}
	clear(es[len(kept):])
	return kept, claimed, nil
}

// appendCount is the payload of an end frame.
func appendCount(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
