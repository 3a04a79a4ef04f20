package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"waypost"
	"waypost/replication"
)

// Begin implements replication.Restore.
func (r *restore) Begin(ctx context.Context, lowest, highest waypost.Position) error {
	if err := r.usable(); err != nil {
		return err
	}
	if lowest.Epoch != highest.Epoch || lowest.Seq > highest.Seq {
		return fmt.Errorf("restore: a tail from %v to %v is none", lowest, highest)
	}
	r.highest = highest.Seq
	if r.st != nil { // opened as it was
		return nil
	}
	r.ready.join(&r.pending)
	g, durable := r.ready.take(), r.durable
	err := r.later(ctx, func(ctx context.Context) error {
		if err := r.make(ctx, g); err != nil || !durable {
			return err
		}
		return r.save(r.kept)
	})
	if err == nil {
		err = r.wait(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.ingest(ctx, lowest); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// ingest makes a store of the tables, whose files stay until it serves.
func (r *restore) ingest(ctx context.Context, lowest waypost.Position) error {
	db := r.db
	st, err := db.openStore(storeName(r.number), true)
	if err != nil {
		return err
	}
	r.st = st
	db.cfg.Points.Hit("fill store: made")
	next := state{format: r.format, cluster: r.cluster, position: lowest}
	links := db.fs.PathJoin(db.path(r.dir()), "links")
	if err := db.fs.MkdirAll(links, 0o700); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	for layer, left := 0, len(r.tables); left > 0; layer++ {
		var paths []string
		for i := range r.tables {
			if t := &r.tables[i]; t.Layer == layer {
				left--
				next.digest ^= t.Tally.Digest
				next.records += t.Tally.Records
				path := db.fs.PathJoin(links, tableName(t.Number))
				if err := vfs.LinkOrCopy(db.fs, r.tablePath(t.Number), path); err != nil {
					return fmt.Errorf("link a table: %w", err)
				}
				paths = append(paths, path)
			}
		}
		if len(paths) == 0 {
			continue
		}
		db.cfg.Points.Hit("fill store: linked")
		if err := st.pdb.Ingest(ctx, paths); err != nil {
			return fmt.Errorf("ingest tables: %w", err)
		}
		if err := st.health.err(); err != nil {
			return fmt.Errorf("ingest tables: %w", err)
		}
	}
	db.cfg.Points.Hit("fill store: ingested")
	if r.begun.Next > 0 || r.again {
		err = st.loadNotes()
	} else {
		for i := range r.notes {
			st.note(&r.notes[i])
		}
		st.publish()
	}
	if err != nil {
		return err
	}
	st.applied.Store(&next)
	st.synced.Store(&waypost.Position{})
	if r.table != nil {
		r.table.Finish() // so that what it lacks is known to be new
	}
	st.table.Store(r.table)
	r.table = nil
	r.db.metrics.poison.Add(float64(r.poison))
	// With its state it is whole: from here on a restart goes on with the tail.
	if err := r.write(ctx, func(w *writer) error { w.sync = true; return nil }); err != nil {
		return err
	}
	db.cfg.Points.Hit("fill store: done")
	return nil
}

// Apply implements replication.Restore.
func (r *restore) Apply(ctx context.Context, b *replication.Batch) error {
	if err := r.usable(); err != nil {
		return err
	}
	if r.st == nil {
		return errors.New("restore: the tail comes after Begin")
	}
	if err := r.db.lowDisk(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := r.write(ctx, func(w *writer) error { return w.take(b, r.highest) }); err != nil {
		return err
	}
	r.db.cfg.Points.Hit("take tail: applied")
	return nil
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
	if r.st == nil {
		return errors.New("restore: it ends after Begin")
	}
	s := r.st.applied.Load()
	if s.position.Seq < r.highest || s.digest != digest {
		return fmt.Errorf("restore: %w: at sequence %d of %d the digest is %016x and not %016x",
			replication.ErrDiverged, s.position.Seq, r.highest, s.digest, digest)
	}
	if err := r.judge(ctx); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := r.write(ctx, func(w *writer) error { w.sync = true; return nil }); err != nil {
		return err
	}
	r.db.cfg.Points.Hit("swap stores: begun")
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
	renamed, err := db.setCurrent(r.st.name, r.format)
	r.keep = renamed
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	db.cfg.Points.Hit("swap stores: named")
	if t := r.st.table.Load(); t != nil {
		if r.st.loaded = t.Finish(); r.st.loaded { // else once there is room, which the old one's makes
			t.Resume(0)
		}
	}
	old := db.live.Swap(r.st)
	r.end()
	db.mended(&db.restores)
	if old != nil {
		old.comparing.end(errCompared)
		db.retire(old)
	}
	db.cfg.Points.Hit("swap stores: done")
	if err := db.fs.RemoveAll(db.path(r.dir())); err != nil {
		db.cfg.Logger.Warn("the tables of a restore are removed at the next start", "error", err)
	}
	db.cfg.Points.Hit("swap stores: cleared")
	db.wakeFill()
	return nil
}
