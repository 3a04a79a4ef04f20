package replicationtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"waypost"
	"waypost/replication"
)

// Sink is a replica in memory.
type Sink struct {
	mu        sync.Mutex
	held      *holding // nil: nothing yet
	restoring bool
	restores  int
	moved     chan struct{}
	failing   error
}

// holding is one store. It is copied before it is changed.
type holding struct {
	cluster  replication.Cluster
	position waypost.Position
	digest   uint64
	rows     map[string]row
}

type row struct {
	raw      []byte
	revision waypost.Revision
	stamp    uint64
}

// NewSink makes an empty replica.
func NewSink() *Sink { return &Sink{moved: make(chan struct{})} }

// Fail makes Apply answer err from now on; nil heals it.
func (s *Sink) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = err
}

// Moved returns a channel that is closed when the position changes next.
func (s *Sink) Moved() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved
}

// Restores counts the restores begun.
func (s *Sink) Restores() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restores
}

func (s *Sink) set(h *holding) {
	s.held = h
	close(s.moved)
	s.moved = make(chan struct{})
}

// Cluster implements replication.Sink.
func (s *Sink) Cluster() (replication.Cluster, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		return replication.Cluster{}, false
	}
	return s.held.cluster, true
}

// Position implements replication.Sink.
func (s *Sink) Position() waypost.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		return waypost.Position{}
	}
	return s.held.position
}

// Records visits every record held, in no order.
func (s *Sink) Records(_ context.Context, visit func([]byte) error) (waypost.Position, error) {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held == nil {
		return waypost.Position{}, nil
	}
	for _, r := range held.rows {
		if err := visit(r.raw); err != nil {
			return waypost.Position{}, err
		}
	}
	return held.position, nil
}

// Apply implements replication.Sink.
func (s *Sink) Apply(_ context.Context, b *replication.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return s.failing
	}
	if s.held == nil {
		return fmt.Errorf("%w: nothing is held", replication.ErrDiverged)
	}
	next, err := s.held.after(b, 0)
	if err == nil {
		s.set(next)
	}
	return err
}

// Heartbeat implements replication.Sink.
func (s *Sink) Heartbeat(h replication.Head) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil && s.held.position == h.Position && s.held.digest != h.Digest {
		return replication.ErrDiverged
	}
	return nil
}

// after returns the holding that a batch makes of h, judging the digest from judgeFrom
// on.
func (h *holding) after(b *replication.Batch, judgeFrom uint64) (*holding, error) {
	next := &holding{cluster: h.cluster, position: h.position, digest: h.digest, rows: maps.Clone(h.rows)}
	for i := range b.Transactions {
		t := &b.Transactions[i]
		if b.Epoch != next.position.Epoch || t.Seq != next.position.Seq+1 {
			return nil, fmt.Errorf("%w: a gap", replication.ErrDiverged)
		}
		written := map[string]bool{}
		for _, raw := range t.Records {
			if err := next.put(raw, written); err != nil {
				return nil, err
			}
		}
		next.position.Seq, next.position.Stamp = t.Seq, t.Stamp
		if t.Seq >= judgeFrom && next.digest != t.Digest {
			return nil, fmt.Errorf("%w: another digest", replication.ErrDiverged)
		}
	}
	return next, nil
}

// put applies one record when it is newer. Keys in written were already written by the
// same transaction, in which the later record wins; nil outside of a transaction.
func (h *holding) put(raw []byte, written map[string]bool) error {
	var r waypost.Record
	if err := replication.DecodeRecord(raw, &r); err != nil && !errors.Is(err, replication.ErrContent) {
		return err
	}
	k := key(&r)
	old, found := h.rows[k]
	if found && !r.Revision.Newer(old.revision) && !written[k] {
		return nil
	}
	h.digest ^= old.stamp
	if written != nil {
		written[k] = true
	}
	if r.State == waypost.Purged {
		delete(h.rows, k)
		return nil
	}
	h.digest ^= r.Stamp
	h.rows[k] = row{raw: append([]byte(nil), raw...), revision: r.Revision, stamp: r.Stamp}
	return nil
}

// Restore implements replication.Sink.
func (s *Sink) Restore(_ context.Context, c replication.Cluster) (replication.Restore, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.restoring {
		return nil, errors.New("a restore is under way")
	}
	s.restoring = true
	s.restores++
	return &restore{sink: s, fresh: &holding{cluster: c, rows: map[string]row{}}}, nil
}

// Accept implements replication.Sink. A Sink holds nothing back.
func (s *Sink) Accept(replication.HoldKind, waypost.Position) {}

type restore struct {
	sink    *Sink
	fresh   *holding
	highest uint64
	ended   bool
}

func (r *restore) Slots(_ context.Context, records [][]byte) error {
	for _, raw := range records {
		if err := r.fresh.put(raw, nil); err != nil {
			return err
		}
	}
	return nil
}

// Nothing of it outlives the process.
func (r *restore) Progress() replication.Progress                   { return replication.Progress{} }
func (r *restore) Keep(context.Context, replication.Progress) error { return nil }
func (r *restore) Rewind()                                          {}
func (r *restore) Fits(uint64) error                                { return nil }
func (r *restore) Suspend() error                                   { return r.Abort() }

func (r *restore) BeginTail(_ context.Context, lowest, highest waypost.Position) error {
	r.fresh.position, r.highest = lowest, highest.Seq
	return nil
}

func (r *restore) Apply(_ context.Context, b *replication.Batch) error {
	next, err := r.fresh.after(b, r.highest)
	if err == nil {
		r.fresh = next
	}
	return err
}

func (r *restore) Commit(_ context.Context, digest uint64) error {
	if r.fresh.position.Seq < r.highest || r.fresh.digest != digest {
		return replication.ErrDiverged
	}
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	r.sink.set(r.fresh)
	r.sink.restoring, r.ended = false, true
	return nil
}

func (r *restore) Abort() error {
	r.sink.mu.Lock()
	defer r.sink.mu.Unlock()
	if !r.ended {
		r.sink.restoring, r.ended = false, true
	}
	return nil
}
