package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"waypost"
	"waypost/replication"
)

// restore fills a fresh store beside the live one. One goroutine uses it.
type restore struct {
	db      *DB
	st      *store
	highest uint64
	begun   bool
	ended   bool // committed or aborted
	keep    bool // CURRENT may name the store: its files must stay
	open    bool // st.pdb is open
}

var _ replication.Restore = (*restore)(nil)

// Restore implements replication.Sink.
func (db *DB) Restore(_ context.Context, c replication.Cluster) (replication.Restore, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.closed.Load():
		return nil, errClosed
	case db.frozen:
		return nil, errFrozen
	case db.detached:
		return nil, errDetached
	}
	if db.restoring != nil || db.repairing != nil {
		return nil, errors.New("restore: one is under way already, or a repair")
	}
	_, highest, err := db.stores()
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	// Without a WAL: an interrupted restore is begun again in any case, and its end
	// flushes everything.
	name := fmt.Sprintf("%s%06d", storePrefix, highest+1)
	st, err := db.openStore(name, true)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", errors.Join(err, db.fs.RemoveAll(db.path(name))))
	}
	st.applied.Store(&state{format: cmp.Or(db.format, storeFormat), cluster: c})
	st.synced.Store(&waypost.Position{})
	st.publish()
	// It has what the live store's table leaves, and is not to keep that from growing.
	if db.budget != nil {
		st.table.Store(db.newTable(db.budget.Limit() / 8))
	}
	db.restoring = &restore{db: db, st: st, open: true}
	return db.restoring, nil
}

// usable refuses a restore that has ended or whose store has failed.
func (r *restore) usable() error {
	if r.ended {
		return errors.New("restore: it has ended")
	}
	if err := r.st.health.err(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// Slots implements replication.Restore.
func (r *restore) Slots(ctx context.Context, records [][]byte) error {
	if err := r.usable(); err != nil {
		return err
	}
	return r.write(ctx, func(w *writer) error {
		for _, raw := range records {
			if err := w.put(raw, 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// Begin implements replication.Restore.
func (r *restore) Begin(lowest, highest waypost.Position) error {
	if err := r.usable(); err != nil {
		return err
	}
	if lowest.Epoch != highest.Epoch || lowest.Seq > highest.Seq {
		return fmt.Errorf("restore: a tail from %v to %v is none", lowest, highest)
	}
	next := *r.st.applied.Load()
	next.position = lowest
	r.st.applied.Store(&next)
	r.highest, r.begun = highest.Seq, true
	return nil
}

// Apply implements replication.Restore.
func (r *restore) Apply(ctx context.Context, b *replication.Batch) error {
	if err := r.usable(); err != nil {
		return err
	}
	if !r.begun {
		return errors.New("restore: the tail comes after Begin")
	}
	return r.write(ctx, func(w *writer) error { return w.take(b, r.highest) })
}

func (r *restore) write(ctx context.Context, put func(*writer) error) error {
	w := newWriter(r.st)
	err := put(w)
	if err == nil {
		err = w.commit(ctx)
	}
	if err = errors.Join(err, w.close()); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	r.db.metrics.taken(w)
	return nil
}

// Commit implements replication.Restore. Once it returns nil the fresh store
// serves, and will after any crash.
func (r *restore) Commit(ctx context.Context, digest uint64) error {
	if err := r.usable(); err != nil {
		return err
	}
	s := *r.st.applied.Load()
	if !r.begun || s.position.Seq < r.highest || s.digest != digest {
		return fmt.Errorf("restore: %w: at sequence %d of %d the digest is %016x and not %016x",
			replication.ErrDiverged, s.position.Seq, r.highest, s.digest, digest)
	}
	if err := r.write(ctx, func(*writer) error { return nil }); err != nil { // the state, after Begin alone
		return err
	}
	if err := r.st.flush(ctx); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	// Opened again it has a WAL, and is known to be readable.
	r.open = false
	if err := r.st.closePebble(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	st, err := r.db.openExisting(r.st.name)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	st.table.Store(r.st.table.Swap(nil))
	r.st, r.open = st, true
	if *st.applied.Load() != s {
		return fmt.Errorf("restore: %w: the store holds another state than was written", replication.ErrDiverged)
	}
	return r.swap()
}

// swap makes the fresh store the live one, first on disk and then for readers.
func (r *restore) swap() error {
	db := r.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed.Load() {
		return errClosed
	}
	renamed, err := db.setCurrent(r.st.name, r.st.applied.Load().format)
	r.keep = renamed
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if t := r.st.table.Load(); t != nil {
		if r.st.loaded = t.Finish(); r.st.loaded { // else once there is room, which the old one's makes
			t.Resume(0)
		}
	}
	old := db.live.Swap(r.st)
	r.ended, db.restoring = true, nil
	if old != nil {
		old.comparing.end(errCompared)
		db.retire(old)
	}
	db.wakeFill()
	return nil
}

// Abort implements replication.Restore.
func (r *restore) Abort() error {
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	if r.ended {
		return nil
	}
	r.ended, r.db.restoring = true, nil
	var err error
	if r.open {
		err = r.st.closePebble()
	}
	if t := r.st.table.Swap(nil); t != nil {
		r.db.endTable(t, [4]uint64{})
		r.db.wakeFill()
	}
	if !r.keep {
		err = errors.Join(err, r.db.fs.RemoveAll(r.db.path(r.st.name)))
	}
	if err != nil {
		return fmt.Errorf("abort a restore: %w", err)
	}
	return nil
}
