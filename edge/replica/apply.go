package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waypost/replication"
)

// Apply implements replication.Sink. It fails while the replica is degraded; when only a
// fresh store can heal it, and the disk takes writes again, the error is ErrDiverged, so
// that the follower takes one. [DeletionGuard] may hold a batch back.
func (db *DB) Apply(ctx context.Context, b *replication.Batch) error {
	start := time.Now()
	db.serving.mu.Lock()
	defer db.serving.mu.Unlock()
	if err := db.serving.writable(); err != nil {
		return err
	}
	st := db.serving.live.Load()
	if st == nil {
		return fmt.Errorf("%w: nothing is held yet", replication.ErrDiverged)
	}
	if err := db.storage.checkHealth(st); err != nil {
		return err
	}
	if len(b.Transactions) == 0 {
		return nil
	}
	if err := db.disk.low(); err != nil {
		return err
	}
	if st.applied.Load().repairing {
		return fmt.Errorf("%w: a repair is under way", replication.ErrDiverged)
	}
	w := newWriter(st)
	w.judge = db.deletions.holdBack
	err := w.writeBatch(b, 0)
	if err == nil {
		err = w.keep(b, st.applied.Load().position, &db.cfg)
	}
	if err == nil {
		db.cfg.Points.Hit("apply changes: begun")
		err = w.commit(ctx)
	}
	for i := 0; err == nil && i < len(w.links); i++ {
		if !w.links[i].poison {
			db.cfg.Arrived(&w.links[i].record)
		}
	}
	if err = errors.Join(err, w.close()); err != nil {
		if errors.Is(err, replication.ErrDiverged) {
			db.source.diverged.Store(true)
		}
		return err
	}
	db.cfg.Points.Hit("apply changes: committed")
	db.source.diverged.Store(false)
	db.source.moved()
	if t := st.table.Load(); t != nil && t.NeedsFilter() {
		db.filler.wake() // the table has just outgrown its budget
	}
	db.metrics.taken(w)
	db.metrics.seconds.Observe(time.Since(start).Seconds())
	if !w.sync {
		db.syncer.touch()
	}
	return nil
}

// checkHealth returns the reason why a store may take no batch.
func (s *storage) checkHealth(st *store) error {
	f := st.health.current()
	switch {
	case f == nil:
		return nil
	case f.corrupt:
		return fmt.Errorf("%w: the replica is degraded: %w", replication.ErrDiverged, f.err)
	case st.health.failed() == nil:
		return fmt.Errorf("the replica is degraded: %w", f.err)
	}
	if err := s.probe(); err != nil {
		return fmt.Errorf("the replica is degraded: %w; and still: %w", f.err, err)
	}
	return fmt.Errorf("%w: the store has missed a write: %w", replication.ErrDiverged, f.err)
}

// Heartbeat implements replication.Sink.
func (db *DB) Heartbeat(h replication.Head) error {
	st := db.serving.live.Load()
	if st == nil {
		return nil
	}
	if f := st.health.current(); f != nil && f.corrupt {
		return fmt.Errorf("%w: the replica is degraded: %w", replication.ErrDiverged, f.err)
	}
	if s := st.applied.Load(); s.position == h.Position && s.digest != h.Digest {
		db.source.diverged.Store(true)
		return fmt.Errorf("%w: the digest at sequence %d is %016x and not %016x", replication.ErrDiverged,
			s.position.Seq, s.digest, h.Digest)
	}
	db.source.heard(h)
	return nil
}
