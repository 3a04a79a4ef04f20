package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"waypost"
	"waypost/replication"
)

var _ replication.Sink = (*DB)(nil)

// Cluster implements replication.Sink.
func (db *DB) Cluster() (replication.Cluster, bool) {
	if st := db.live.Load(); st != nil {
		return st.applied.Load().cluster, true
	}
	return replication.Cluster{}, false
}

// Position implements replication.Sink.
func (db *DB) Position() waypost.Position {
	if st := db.live.Load(); st != nil {
		return st.applied.Load().position
	}
	return waypost.Position{}
}

// Apply implements replication.Sink. While the replica is degraded it fails; when
// only a fresh store can heal it, and the disk takes writes again, the error is
// ErrDiverged, so that the follower brings one. See [Valve] for what is held back.
func (db *DB) Apply(ctx context.Context, b *replication.Batch) error {
	start := time.Now()
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.closed.Load():
		return errClosed
	case db.frozen:
		return errFrozen
	case db.detached:
		return errDetached
	}
	st := db.live.Load()
	if st == nil {
		return fmt.Errorf("%w: nothing is held yet", replication.ErrDiverged)
	}
	if err := db.fit(st); err != nil {
		return err
	}
	if len(b.Transactions) == 0 {
		return nil
	}
	if err := db.lowDisk(); err != nil {
		return err
	}
	if st.applied.Load().repairing {
		return fmt.Errorf("%w: a repair is under way", replication.ErrDiverged)
	}
	w := newWriter(st)
	w.judge = func(w *writer, t *replication.Transaction) error { return w.countDeletions(db.valve, db.accepted, t) }
	err := w.take(b, 0)
	if err == nil {
		err = w.keep(b, st.applied.Load().position, &db.cfg)
	}
	if err == nil {
		db.cfg.Points.Hit("apply changes: begun")
		err = w.commit(ctx)
	}
	if err = errors.Join(err, w.close()); err != nil {
		db.judge(err)
		return err
	}
	db.cfg.Points.Hit("apply changes: committed")
	db.diverged.Store(false)
	db.moved()
	if t := st.table.Load(); t != nil && t.NeedsFilter() {
		db.wakeFill() // it has outgrown its budget just now
	}
	db.metrics.taken(w)
	db.metrics.seconds.Observe(time.Since(start).Seconds())
	if !w.sync {
		db.touch()
	}
	return nil
}

// judge keeps in mind that the replica differs from its source, which makes it none itself
// until it is mended or proves to be right.
func (db *DB) judge(err error) {
	if errors.Is(err, replication.ErrDiverged) {
		db.diverged.Store(true)
	}
}

// fit judges whether a store may take a batch.
func (db *DB) fit(st *store) error {
	f := st.health.current()
	switch {
	case f == nil:
		return nil
	case f.corrupt:
		return fmt.Errorf("%w: the replica is degraded: %w", replication.ErrDiverged, f.err)
	case st.health.failed() == nil:
		return fmt.Errorf("the replica is degraded: %w", f.err)
	}
	if err := db.probe(); err != nil {
		return fmt.Errorf("the replica is degraded: %w; and still: %w", f.err, err)
	}
	return fmt.Errorf("%w: the store has missed a write: %w", replication.ErrDiverged, f.err)
}

// probe finds out whether the disk takes writes.
func (db *DB) probe() error {
	name := db.path("PROBE")
	f, err := db.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("probe the disk: %w", err)
	}
	_, err = f.Write(make([]byte, 1<<20))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close(), db.fs.Remove(name)); err != nil {
		return fmt.Errorf("probe the disk: %w", err)
	}
	return nil
}

// Heartbeat implements replication.Sink.
func (db *DB) Heartbeat(h replication.Head) error {
	st := db.live.Load()
	if st == nil {
		return nil
	}
	if f := st.health.current(); f != nil && f.corrupt {
		return fmt.Errorf("%w: the replica is degraded: %w", replication.ErrDiverged, f.err)
	}
	if s := st.applied.Load(); s.position == h.Position && s.digest != h.Digest {
		db.diverged.Store(true)
		return fmt.Errorf("%w: the digest at sequence %d is %016x and not %016x", replication.ErrDiverged,
			s.position.Seq, s.digest, h.Digest)
	}
	db.heard(h)
	return nil
}
