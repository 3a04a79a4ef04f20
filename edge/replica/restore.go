package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/sstable"

	"waypost"
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
	again      bool                 // some slots are taken again: PROGRESS stays as it was until all are
	kept       replication.Progress // what Keep was last told
	durable    bool                 // there is a file PROGRESS
	savedAt    time.Time
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

var (
	_ replication.Fitter  = (*restore)(nil)
	_ replication.Retaker = (*restore)(nil)
)

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
			db.cfg.Points.Hit("begin restore: made")
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

// gather takes records into the range that is being taken.
func (r *restore) gather(records [][]byte) error {
	var rec waypost.Record
	var pace pacer
	for _, raw := range records {
		pace.step()
		err := replication.DecodeRecord(raw, &rec)
		if err != nil && !errors.Is(err, replication.ErrContent) {
			return err
		}
		if rec.State != waypost.Purged {
			r.pending.add(&rec, raw, err != nil)
		}
	}
	return nil
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
	r.db.cfg.Points.Hit("take slots: gathered")
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
	if r.ready.bytes < r.db.saveBytes && time.Since(r.savedAt) < r.db.saveAfter && !r.spilled {
		return nil
	}
	r.savedAt, r.durable, r.spilled = time.Now(), true, false
	g := r.ready.take()
	return r.later(ctx, func(ctx context.Context) error {
		if err := r.make(ctx, g); err != nil {
			return err
		}
		if r.again {
			r.whole = len(r.tables)
			return nil
		}
		return r.save(p)
	})
}

// Again implements replication.Retaker. The files of tables stay until all is there, since PROGRESS names
// them.
func (r *restore) Again(ctx context.Context, before int) (int, error) {
	if err := r.usable(); err != nil {
		return 0, err
	}
	if r.st != nil {
		return 0, errors.New("restore: slots are taken again before Begin")
	}
	if err := r.wait(ctx); err != nil {
		return 0, err
	}
	for more := true; more; { // a table has whole ranges, and may have some that lie behind
		more = false
		for i := range r.tables {
			if t := &r.tables[i]; t.First < before && before <= t.Last {
				before, more = t.Last+1, true
			}
		}
	}
	r.pending.take()
	r.ready.forget(before)
	r.tables = slices.DeleteFunc(slices.Clone(r.tables), func(t madeTable) bool { return t.First < before })
	r.whole, r.again = len(r.tables), true
	r.dropTable() // it has links that may be gone; the store fills another
	return before, nil
}

// dropTable gives the lookup table up.
func (r *restore) dropTable() {
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	if r.table != nil {
		r.db.endTable(r.table, [4]uint64{})
		r.table = nil
	}
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
	done := make(chan error, 1)
	r.writing = done
	go func() { done <- do(r.background) }()
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
	var publishing sync.WaitGroup
	if r.db.live.Load() == nil || workers() > 1 {
		publishing.Go(func() { r.publishAll(ctx, items) })
	} else {
		r.publishAll(ctx, items)
	}
	t, err := r.writeTable(ctx, r.next, items)
	publishing.Wait()
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	for i := range r.tables {
		if old := &r.tables[i]; old.Layer >= t.Layer && old.First <= t.Last && t.First <= old.Last {
			t.Layer = old.Layer + 1
		}
	}
	r.tables = append(r.tables, t)
	r.db.cfg.Points.Hit("make table: written")
	r.db.metrics.records.Add(float64(len(items)))
	r.db.metrics.written.Add(float64(t.Bytes))
	return nil
}
