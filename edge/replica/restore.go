package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/cockroachdb/pebble/v2/vfs"

	"waypost"
	"waypost/edge/aside"
	"waypost/edge/lookup"
	"waypost/replication"
)

// restore makes a fresh store beside the live one: first sorted tables of the slots, in a
// directory of their own, then of these a store, which takes the tail. One goroutine uses it.
type restore struct {
	db      *DB
	number  int
	cluster replication.Cluster
	format  uint32
	options sstable.WriterOptions
	begun   replication.Progress // where it goes on

	pending    gathered             // of the range that is being taken
	ready      gathered             // of whole ranges, after those in tables
	spilled    bool                 // there are tables of the range that is being taken
	volume     int                  // of all records that came, in bytes
	giveBack   func()               // ends the room made for what stands aside; nil: none was made
	kept       replication.Progress // what Keep was last told
	durable    bool                 // there is a file PROGRESS
	savedAt    time.Time
	late       atomic.Bool     // something took too long
	writing    chan error      // the outcome of what goes on in the background; nil: nothing does
	background context.Context //nolint:containedctx // ends what goes on in the background
	stop       context.CancelFunc

	// Owned by what goes on in the background, while something does:
	tables []madeTable
	whole  int // of them, those that make whole ranges of slots
	next   int // number of the next table
	notes  []waypost.Record
	poison int
	table  *lookup.Table // nil: there is none yet

	st      *store // nil: before Begin
	highest uint64
	ended   bool // committed, suspended or aborted
	keep    bool // CURRENT may name the store: its files must stay
}

var _ replication.Fitter = (*restore)(nil)

const (
	// Whole ranges of slots are made durable once there is so much of them, or after so long.
	saveBytes = 4 << 20
	saveAfter = time.Second
)

func storeName(number int) string { return fmt.Sprintf("%s%06d", storePrefix, number) }

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
	r := &restore{db: db, cluster: c, format: cmp.Or(db.format, storeFormat), options: db.tableOptions(), savedAt: time.Now()}
	resumed, err := r.resume()
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if !resumed {
		_, highest, err := db.stores()
		if err == nil {
			r.number = highest + 1
			err = db.makeDir(db.path(r.dir()))
		}
		if err != nil {
			return nil, fmt.Errorf("restore: %w", errors.Join(err, r.remove()))
		}
		// It has what the live store's table leaves, and is not to keep that from growing.
		if db.budget != nil {
			r.table = db.newTable(db.budget.Limit() / 8)
		}
	}
	r.background, r.stop = context.WithCancel(context.Background())
	db.restores.Add(1)
	db.restoring = r
	return r, nil
}

// usable refuses a restore that has ended or whose store has failed.
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
func (r *restore) Progress() replication.Progress { return r.begun }

// Slots implements replication.Restore.
func (r *restore) Slots(ctx context.Context, records [][]byte) error {
	if err := r.usable(); err != nil {
		return err
	}
	if r.st != nil {
		return errors.New("restore: slots come before Begin")
	}
	if err := r.gather(records); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if r.pending.bytes < gatherLimit {
		return nil
	}
	r.spilled = true
	g := r.pending.take()
	return r.later(ctx, func(ctx context.Context) error { return r.make(ctx, g) })
}

// Keep implements replication.Restore.
func (r *restore) Keep(ctx context.Context, p replication.Progress) error {
	if err := r.usable(); err != nil {
		return err
	}
	r.kept = p
	r.ready.join(&r.pending)
	if r.ready.bytes < r.db.saveBytes && time.Since(r.savedAt) < saveAfter && !r.spilled {
		return nil
	}
	r.savedAt, r.durable, r.spilled = time.Now(), true, false
	g := r.ready.take()
	return r.later(ctx, func(ctx context.Context) error {
		if err := r.make(ctx, g); err != nil {
			return err
		}
		return r.save(p)
	})
}

// Rewind implements replication.Restore.
func (r *restore) Rewind() {
	if r.usable() != nil || r.st != nil {
		return
	}
	r.pending.take()
	if r.spilled {
		if r.writing != nil {
			r.writing <- <-r.writing // it is told later
		}
		r.tables, r.spilled = r.tables[:r.whole], false
	}
}

// later does something in the background, once what was there before has ended, whose error
// it gives.
func (r *restore) later(ctx context.Context, do func(context.Context) error) error {
	if err := r.wait(ctx); err != nil {
		return err
	}
	done, disturbs := make(chan error, 1), r.disturbs()
	r.writing = done
	go func() {
		if disturbs {
			aside.Thread(r.level())
		}
		begun := time.Now()
		err := do(r.background)
		r.took(time.Since(begun), late)
		done <- err
	}()
	return nil
}

// wait waits for what goes on in the background. After an error there is no more of it.
func (r *restore) wait(ctx context.Context) error {
	if r.writing == nil {
		return nil
	}
	select {
	case err := <-r.writing:
		if err != nil {
			r.writing <- err // for who asks again
			return fmt.Errorf("restore: %w", err)
		}
		r.writing = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("restore: %w", ctx.Err())
	}
}

// make makes a table of some records.
func (r *restore) make(ctx context.Context, g gathered) error {
	items := g.sorted()
	if len(items) == 0 {
		return nil
	}
	if err := r.db.lowDisk(); err != nil {
		return err
	}
	r.next++
	t, err := r.writeTable(ctx, r.next, items)
	if err != nil {
		return err
	}
	for i := range r.tables {
		if old := &r.tables[i]; old.Layer >= t.Layer && old.First <= t.Last && t.First <= old.Last {
			t.Layer = old.Layer + 1
		}
	}
	r.tables = append(r.tables, t)
	r.db.metrics.records.Add(float64(len(items)))
	return nil
}

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
		if err := st.pdb.Ingest(ctx, paths); err != nil {
			return fmt.Errorf("ingest tables: %w", err)
		}
		if err := st.health.err(); err != nil {
			return fmt.Errorf("ingest tables: %w", err)
		}
	}
	if r.begun.Next > 0 {
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
	return r.write(ctx, func(w *writer) error { w.sync = true; return nil })
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
	if err := db.fs.RemoveAll(db.path(r.dir())); err != nil {
		db.cfg.Logger.Warn("the tables of a restore are removed at the next start", "error", err)
	}
	db.wakeFill()
	return nil
}

// end lets another restore begin. The caller holds db.mu.
func (r *restore) end() {
	r.stop()
	if r.giveBack != nil {
		r.giveBack()
	}
	r.ended, r.db.restoring = true, nil
}

// Suspend implements replication.Restore.
func (r *restore) Suspend() error { return r.leave(true) }

// Abort implements replication.Restore.
func (r *restore) Abort() error { return r.leave(false) }

func (r *restore) leave(keep bool) error {
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	if r.ended {
		return nil
	}
	if !keep {
		r.stop()
	}
	var err error
	if r.writing != nil {
		if err := <-r.writing; err != nil { // told already, or of no importance any more
			r.db.cfg.Logger.Debug("a restore has ended", "error", err)
		}
	}
	r.end()
	r.db.restores.Add(-1)
	if r.st != nil {
		err = r.st.closePebble()
		if t := r.st.table.Swap(nil); t != nil {
			r.table = t
		}
	}
	if r.table != nil {
		r.db.endTable(r.table, [4]uint64{})
		r.db.wakeFill()
	}
	if !keep || !r.durable {
		err = errors.Join(err, r.remove())
	}
	if err != nil {
		return fmt.Errorf("end a restore: %w", err)
	}
	return nil
}

// remove takes the files of a restore away.
func (r *restore) remove() error {
	err := r.db.fs.RemoveAll(r.db.path(r.dir()))
	if !r.keep {
		err = errors.Join(err, r.db.fs.RemoveAll(r.db.path(storeName(r.number))))
	}
	return err
}
