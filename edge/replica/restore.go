package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"waypost"
	"waypost/internal/pacer"
	"waypost/replication"
)

// restore makes a fresh store next to the live one. It first makes sorted tables of the
// slots in their own directory, then a store of these tables, which takes the tail. One
// goroutine uses it and owns its fields.
type restore struct {
	db      *DB
	number  int
	cluster replication.Cluster
	tables  tableBuilder

	resumed replication.Progress // where this restore continues
	kept    replication.Progress // of the last Keep
	durable bool                 // the file PROGRESS exists

	st      *store // nil: before BeginTail
	highest uint64
	ended   bool // committed, suspended or aborted
	named   bool // CURRENT may name the store: its files must stay
}

// Restore implements replication.Sink.
func (db *DB) Restore(_ context.Context, c replication.Cluster) (replication.Restore, error) {
	db.serving.mu.Lock()
	defer db.serving.mu.Unlock()
	if err := db.serving.writable(); err != nil {
		return nil, err
	}
	if db.serving.mu.restoring != nil || db.serving.mu.repairing != nil {
		return nil, errors.New("restore: one is under way already, or a repair")
	}
	r := &restore{db: db, cluster: c}
	resumed, err := r.resume()
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if !resumed {
		_, highest, err := db.storage.stores()
		if err == nil {
			r.number = highest + 1
			err = db.storage.makeDir(r.dir())
			db.cfg.Points.Hit("begin restore: made")
		}
		if err != nil {
			return nil, fmt.Errorf("restore: %w", errors.Join(err, r.remove()))
		}
		// The live store's table may grow while this one is filled.
		if db.filler.budget != nil {
			r.tables.lookup = db.filler.newTable(db.filler.budget.Limit()/8, !db.serving.empty())
		}
	}
	r.tables.beginTables(db, r.dir())
	db.source.restores.Add(1)
	db.serving.mu.restoring = r
	return r, nil
}

// dir returns the path of the directory of the tables.
func (r *restore) dir() string { return r.db.storage.path(restoreName(r.number)) }

// usable returns an error when the restore has ended or its store has failed.
func (r *restore) usable() error {
	if r.ended {
		return errors.New("restore: it has ended")
	}
	if r.st != nil {
		if err := r.st.health.err(); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	return nil
}

// Progress implements replication.Restore.
func (r *restore) Progress() replication.Progress { return r.resumed }

// recordBytes is the assumed size of a record on disk when no other is known.
const recordBytes = 100

// Fits implements replication.Restore.
func (r *restore) Fits(records uint64) error {
	db := r.db
	if err := db.disk.low(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	r.tables.reserve(records)
	if db.disk.look == nil {
		return nil
	}
	each := int64(recordBytes)
	if st := db.serving.live.Load(); st != nil && st.pdb != nil {
		if held := st.applied.Load().records; held > 100_000 {
			each = int64(st.pdb.Metrics().DiskSpaceUsage()/held) + 1
		}
		if records == 0 {
			records = st.applied.Load().records
		}
	}
	need := int64(records) * each
	for i := range r.tables.made {
		need -= r.tables.made[i].Bytes
	}
	if err := db.disk.fits(need, records); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// Slots implements replication.Restore.
func (r *restore) Slots(_ context.Context, records [][]byte) error {
	if err := r.usable(); err != nil {
		return err
	}
	if r.st != nil {
		return errors.New("restore: slots come before BeginTail")
	}
	if err := r.tables.gather(records); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	r.db.cfg.Points.Hit("take slots: gathered")
	return nil
}

// Keep implements replication.Restore.
func (r *restore) Keep(ctx context.Context, p replication.Progress) error {
	if err := r.usable(); err != nil {
		return err
	}
	r.kept = p
	g, due := r.tables.takeDue()
	if !due {
		return nil
	}
	r.durable = true
	return r.tables.later(ctx, func(ctx context.Context, pace *pacer.Pacer) error {
		if err := r.tables.addTable(ctx, pace, g); err != nil {
			return err
		}
		return r.save(p)
	})
}

// Rewind implements replication.Restore.
func (r *restore) Rewind() {
	if r.usable() == nil && r.st == nil {
		r.tables.pending.takeRecords()
	}
}

// BeginTail implements replication.Restore.
func (r *restore) BeginTail(ctx context.Context, lowest, highest waypost.Position) error {
	if err := r.usable(); err != nil {
		return err
	}
	if lowest.Epoch != highest.Epoch || lowest.Seq > highest.Seq {
		return fmt.Errorf("restore: there is no tail from %v to %v", lowest, highest)
	}
	r.highest = highest.Seq
	if r.st != nil { // an earlier restore made the store
		return nil
	}
	g, durable := r.tables.takeAll(), r.durable
	err := r.tables.later(ctx, func(ctx context.Context, pace *pacer.Pacer) error {
		if err := r.tables.addTable(ctx, pace, g); err != nil || !durable {
			return err
		}
		return r.save(r.kept)
	})
	if err == nil {
		err = r.tables.wait(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.ingest(ctx, lowest); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// tablesAtOnce bounds the tables that Pebble takes in one step, some milliseconds long.
const tablesAtOnce = 16

// ingest makes a store of the tables. The tables' files stay until the store serves.
func (r *restore) ingest(ctx context.Context, lowest waypost.Position) error {
	db, tables := r.db, &r.tables
	st, err := db.storage.openStore(storeName(r.number), true)
	if err != nil {
		return err
	}
	r.st = st
	db.cfg.Points.Hit("fill store: made")
	next := state{cluster: r.cluster, position: lowest}
	fs, pace := db.cfg.FS, tables.pacer()
	links := fs.PathJoin(r.dir(), "links")
	if err := fs.MkdirAll(links, 0o700); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	paths := make([]string, len(tables.made))
	for i := range tables.made {
		t := &tables.made[i]
		next.digest ^= t.Tally.Digest
		next.records += t.Tally.Records
		paths[i] = fs.PathJoin(links, tableName(t.Number))
		if err := vfs.LinkOrCopy(fs, tables.path(t.Number), paths[i]); err != nil {
			return fmt.Errorf("link a table: %w", err)
		}
	}
	db.cfg.Points.Hit("fill store: linked")
	for some := range slices.Chunk(paths, tablesAtOnce) {
		if err := st.pdb.Ingest(ctx, some); err != nil {
			return fmt.Errorf("ingest tables: %w", err)
		}
		pace.Pause()
	}
	if err := st.health.err(); err != nil {
		return fmt.Errorf("ingest tables: %w", err)
	}
	db.cfg.Points.Hit("fill store: ingested")
	if r.resumed.Next > 0 {
		err = st.loadNotes()
	} else {
		for i := range tables.notes {
			st.noteRecord(&tables.notes[i])
		}
		st.publishNotes()
	}
	if err != nil {
		return err
	}
	st.applied.Store(&next)
	st.synced.Store(&waypost.Position{})
	if tables.lookup != nil {
		tables.lookup.Finish() // a link that it lacks is known to be new from here on
	}
	st.table.Store(tables.lookup)
	tables.lookup = nil
	db.metrics.poison.Add(float64(tables.poison))
	// With its state the store is complete: after a restart, the restore continues with the
	// tail.
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
		return errors.New("restore: the tail comes after BeginTail")
	}
	if err := r.db.disk.low(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := r.write(ctx, func(w *writer) error { return w.writeBatch(b, r.highest) }); err != nil {
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

// Commit implements replication.Restore. Once it returns nil the fresh store serves, and
// will after any crash.
func (r *restore) Commit(ctx context.Context, digest uint64) error {
	if err := r.usable(); err != nil {
		return err
	}
	if r.st == nil {
		return errors.New("restore: it ends after BeginTail")
	}
	s := r.st.applied.Load()
	if s.position.Seq < r.highest || s.digest != digest {
		return fmt.Errorf("restore: %w: at sequence %d of %d the digest is %016x and not %016x",
			replication.ErrDiverged, s.position.Seq, r.highest, s.digest, digest)
	}
	if err := r.checkFresh(ctx); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := r.write(ctx, func(w *writer) error { w.sync = true; return nil }); err != nil {
		return err
	}
	r.db.cfg.Points.Hit("swap stores: begun")
	return r.swap()
}

// checkFresh reports why the fresh store may not replace the live one.
func (r *restore) checkFresh(ctx context.Context) error {
	db := r.db
	live := db.serving.pin(0)
	if live == nil {
		return nil
	}
	defer live.unpin(0)
	if live.pdb == nil || db.deletions.mayShrink() {
		return nil
	}
	// At most as many links serve as the live store has records, so that most often the
	// live store need not be read as well.
	was, records := live.applied.Load(), r.st.applied.Load().records
	left, err := r.st.servingLinks(ctx)
	if err != nil || db.deletions.judgeLeft(was.records, left) == nil {
		return err
	}
	held, err := live.servingLinks(ctx)
	if err != nil && ctx.Err() == nil {
		// The live store may be unreadable, which may be the reason for the snapshot. A
		// link that it served and that is gone has been purged since, or was changed and
		// no longer serves.
		held, err = r.st.endedAfter(ctx, was.position.Revision())
		held += left + was.records - min(records, was.records)
	}
	if err != nil {
		return err
	}
	return db.deletions.judgeLeft(held, left)
}

// swap makes the fresh store the live one, first on disk and then for readers.
func (r *restore) swap() error {
	db := r.db
	db.serving.mu.Lock()
	defer db.serving.mu.Unlock()
	if db.serving.closed.Load() {
		return errClosed
	}
	renamed, err := db.storage.setCurrent(r.st.name)
	r.named = renamed
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	db.cfg.Points.Hit("swap stores: named")
	if t := r.st.table.Load(); t != nil {
		if r.st.guarded.loaded = t.Finish(); r.st.guarded.loaded {
			t.UseAll()
		} // else the filler fills it, once the old table is gone
	}
	old := db.serving.live.Swap(r.st)
	r.endRestore()
	db.deletions.spend()
	db.source.recovered(&db.source.restores)
	if old != nil {
		db.serving.retire(old)
	}
	db.cfg.Points.Hit("swap stores: done")
	if err := db.cfg.FS.RemoveAll(r.dir()); err != nil {
		db.cfg.Logger.Warn("cannot remove the tables of a restore before the next start", "error", err)
	}
	db.cfg.Points.Hit("swap stores: cleared")
	db.filler.wake()
	return nil
}

// endRestore lets another restore begin. The caller holds db.serving.mu.
func (r *restore) endRestore() {
	r.tables.stop()
	r.ended, r.db.serving.mu.restoring = true, nil
}

// Suspend implements replication.Restore.
func (r *restore) Suspend() error { return r.leave(true) }

// Abort implements replication.Restore.
func (r *restore) Abort() error { return r.leave(false) }

func (r *restore) leave(resumable bool) error {
	r.db.serving.mu.Lock()
	defer r.db.serving.mu.Unlock()
	if r.ended {
		return nil
	}
	if !resumable {
		r.tables.stop()
	}
	r.tables.finish()
	r.endRestore()
	r.db.source.restores.Add(-1)
	var err error
	if r.st != nil {
		err = r.st.closePebble()
		if t := r.st.table.Swap(nil); t != nil {
			r.tables.lookup = t
		}
	}
	if r.tables.lookup != nil {
		r.db.serving.endTable(r.tables.lookup, [4]uint64{}, nil)
		r.db.filler.wake()
	}
	if !resumable || !r.durable || r.named { // no later restore must remove a store that CURRENT may name
		err = errors.Join(err, r.remove())
	}
	if err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	return nil
}

// remove removes the files of the restore.
func (r *restore) remove() error { return r.db.storage.removeRestore(r.number, r.named) }

// Whole ranges of slots are made durable once there are that many bytes of them, or after
// that time.
const (
	saveBytes = 4 << 20
	saveAfter = time.Second
)
