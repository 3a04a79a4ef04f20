package replication

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run reads the source until ctx ends, then tells all followers to leave, and
// returns ctx's error. A source that fails is tried again for as long as it takes:
// followers stay connected meanwhile, and see the age of the head.
func (s *Server) Run(ctx context.Context) error {
	defer s.beginDrain()
	t := tail{server: s, delay: s.cfg.MinPoll}
	for {
		changed := s.cfg.Source.Changed()
		wait := t.step(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-changed:
			timer.Stop()
			if t.failures > 0 { // a hint does not heal a source
				if err := sleep(ctx, wait); err != nil {
					return err
				}
			}
		case <-timer.C:
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// tail is the state of Run alone.
type tail struct {
	server   *Server
	delay    time.Duration // to the next look, while the source answers
	failures int           // in a row
	headAt   time.Time     // when the head was last read

	generation uint32 // of the key that what is passed on is signed with
}

// step looks at the source once and says how long to wait for the next look.
func (t *tail) step(ctx context.Context) time.Duration {
	s := t.server
	moved, err := t.read(ctx)
	switch {
	case errors.Is(err, ErrNoSource):
		s.suspend(err)
		t.delay = s.cfg.MaxPoll
		return t.delay
	case err == nil && moved:
		t.delay = s.cfg.MinPoll
		t.failures = 0
		return 0
	case err == nil:
		t.delay = min(2*t.delay, s.cfg.MaxPoll)
		t.failures = 0
		return t.delay
	case ctx.Err() != nil:
		return 0
	}
	s.metrics.failures.Inc()
	if t.failures++; t.failures == 1 {
		s.cfg.Logger.Warn("the changelog cannot be read; followers wait", "error", err)
	}
	return min(s.cfg.MaxPoll<<min(t.failures-1, 5), 2*time.Second)
}

// read takes what the source has, and its head when that is due.
func (t *tail) read(ctx context.Context) (moved bool, err error) {
	s := t.server
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()

	s.mu.Lock()
	known, at := s.known, s.ring.tail()
	s.mu.Unlock()
	_, relays := s.cfg.Source.(Relay)
	if generation := s.cfg.Trust.Generation(); relays && generation != t.generation {
		t.generation, known = generation, false // what is in the ring is signed with another key
	}
	if !known || relays || time.Since(t.headAt) >= s.cfg.Heartbeat {
		head, err := s.cfg.Source.Head(ctx)
		if err != nil {
			return false, fmt.Errorf("read the head: %w", err)
		}
		t.headAt = time.Now()
		if !known || head.Position.Epoch != at.Epoch {
			s.restart(head)
			return true, nil
		}
		s.setHead(head)
	}

	b, err := s.cfg.Source.Read(ctx, at, s.cfg.ReadRecords)
	switch {
	case errors.Is(err, ErrOtherHistory), errors.Is(err, ErrTrimmed):
		// The source is not what it was. Begin again at its head; each follower is
		// judged by its own position.
		head, headErr := s.cfg.Source.Head(ctx)
		if headErr != nil {
			return false, fmt.Errorf("read the head: %w", headErr)
		}
		s.cfg.Logger.Warn("the changelog left its history; followers are judged anew", "error", err,
			"was", at, "is", head.Position)
		s.restart(head)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read the changelog: %w", err)
	case len(b.Transactions) == 0:
		return false, nil
	}
	if b.Epoch != at.Epoch || b.Transactions[0].Seq != at.Seq+1 {
		return false, fmt.Errorf("the source gave sequence %d after %d", b.Transactions[0].Seq, at.Seq)
	}
	s.append(&b)
	return true, nil
}

func (s *Server) restart(head Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.unfit = true, false
	s.ring.restart(head.Position)
	s.noteHead(head)
	s.broadcast()
}

// suspend turns followers away until the source is one again.
func (s *Server) suspend(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unfit {
		return
	}
	s.known, s.unfit = false, true
	s.cfg.Logger.Info("followers are turned away for now", "reason", why)
	s.broadcast()
}

func (s *Server) setHead(head Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteHead(head)
}

// noteHead makes the heartbeat that all followers share. s.mu is held.
func (s *Server) noteHead(head Head) {
	if s.cfg.Signer != nil {
		head.Signature = s.cfg.Signer.signHead(&head)
	}
	s.head = head
	if r, ok := s.cfg.Source.(Relay); ok {
		head = r.Origin()
	}
	s.heartbeat = s.vouched(&head, plainFrame(frameHeartbeat, 0, appendHead(nil, &head)))
}

func (s *Server) append(b *Batch) {
	es := s.encoder.frames(b, s.cfg.Signer) // outside the lock: it takes its time
	s.cfg.Points.Hit("encode batch: done")
	if b.Frame == nil {
		s.metrics.encoded.Add(float64(len(es)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.add(es)
	s.broadcast()
}
