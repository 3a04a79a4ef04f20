package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"waypost/internal/pacer"
)

// Detach releases the replica's directory with its lock, so that another process can open
// it, and continues to answer from memory: Link, Domain, Position and the like stay as
// they are, and nothing is applied any more. All that was applied is durable before.
//
// Detach fails, and changes nothing, when the lookup table does not hold all links, a
// restore is under way, or the replica is degraded. It is called once Apply has returned,
// waits for reads of the store that are under way, and ignores ctx once it has begun.
func (db *DB) Detach(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("detach the replica: %w", err)
	}
	if err := db.beginDetach(); err != nil {
		return fmt.Errorf("detach the replica: %w", err)
	}
	err := db.Sync()
	if err == nil {
		err = db.failed() // Sync skips a store that has failed meanwhile
	}
	if err != nil {
		db.mu.Lock()
		db.mu.detached = false
		db.mu.Unlock()
		db.filler.wake()
		return fmt.Errorf("detach the replica: %w", err)
	}
	// Replaced stores are removed while the directory is still locked, at once: a successor
	// waits for it.
	db.hurryUp()
	db.retirements.Wait()

	db.mu.Lock()
	old := db.live.Load()
	answering := &store{name: old.name, health: newHealth(old.health.log)}
	answering.guarded.loaded = true
	answering.drained = make(chan struct{}, 1)
	answering.verified.Store(old.verified.Load())
	answering.applied.Store(old.applied.Load())
	answering.synced.Store(old.synced.Load())
	answering.share(&old.notes)
	answering.table.Store(old.table.Load())
	db.live.Store(answering)
	old.guarded.comparing.end(errCompared)
	db.mu.Unlock()

	old.awaitReaders()
	if err := old.closePebble(); err != nil {
		db.cfg.Logger.Warn("cannot close the store of a detached replica", "error", err)
	}
	if err := db.unlockDir(); err != nil {
		db.cfg.Logger.Warn("cannot unlock the directory of a detached replica", "error", err)
	}
	db.cfg.Logger.Info("the replica is detached and answers from memory", "links", answering.table.Load().Stats().Entries)
	return nil
}

// beginDetach checks that the replica can be detached, and keeps it from changing.
func (db *DB) beginDetach() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch st := db.live.Load(); {
	case db.closed.Load():
		return errClosed
	case db.mu.detached:
		return errDetached
	case st == nil:
		return errEmpty
	case db.mu.restoring != nil, db.mu.repairing != nil:
		return errors.New("a restore or a repair is under way")
	case st.table.Load() == nil || !st.table.Load().IsComplete():
		return errIncomplete
	case st.health.err() != nil:
		return fmt.Errorf("it is degraded: %w", st.health.err())
	}
	db.mu.detached = true
	return nil
}

// Attach takes the directory back after Detach, in the state in which another process has
// left it, and changes are taken again. It fails, and the replica stays detached, while
// that process has the directory, or when the store cannot be read.
func (db *DB) Attach(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("attach the replica: %w", err)
	}
	if db.closed.Load() {
		return errClosed
	}
	if !db.Detached() {
		return errors.New("attach the replica: it is not detached")
	}
	if err := db.lockDir(); err != nil {
		return err
	}
	name, err := db.readCurrent()
	if err == nil && name == "" {
		err = errEmpty
	}
	var st *store
	if err == nil {
		st, err = db.openExisting(name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("attach the replica: %w", err), db.unlockDir())
	}

	db.mu.Lock()
	answering := db.live.Load()
	table := answering.table.Load()
	// The table lacks all that another process has applied meanwhile.
	if same := name == answering.name && *st.applied.Load() == *answering.applied.Load(); same {
		st.guarded.loaded = true
		st.table.Store(table)
		table = nil
	}
	db.live.Store(st)
	answering.table.Store(nil)
	db.mu.detached = false
	db.mu.Unlock()
	if table != nil {
		db.endTable(table, [4]uint64{}, new(pacer.Pacer))
	}
	db.filler.wake()
	return nil
}

// Freeze returns a second replica with the present content of this one. It answers, and
// never changes. Its files are hard links in dir, which must not exist, must lie on the
// same file system, and which the caller removes after Close. Meanwhile this replica can
// be closed, so that another process opens it. Freeze fails, and leaves nothing behind,
// when nothing is held yet, or when the store has failed and may lack batches that it has
// shown.
func (db *DB) Freeze(dir string) (_ *DB, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed.Load() {
		return nil, errClosed
	}
	st := db.live.Load()
	if st == nil {
		return nil, errEmpty
	}
	if f := st.health.failed(); f != nil {
		return nil, fmt.Errorf("freeze the replica: %w", f.err)
	}
	fs := db.cfg.FS
	defer func() {
		if err != nil {
			err = fmt.Errorf("freeze the replica: %w", errors.Join(err, fs.RemoveAll(dir)))
		}
	}()
	if err := st.pdb.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return nil, err
	}
	if err := db.moveWAL(dir); err != nil {
		return nil, err
	}
	cfg := db.cfg
	cfg.Dir, cfg.Registerer = fs.PathDir(dir), nil
	frozen := newDB(cfg, db.storage.cache)
	frozen.readOnly, frozen.memTableSize, frozen.errorPause = true, db.memTableSize, db.errorPause
	frozen.storage.cache.Ref()
	copied, err := frozen.openExisting(fs.PathBase(dir))
	if err != nil {
		frozen.storage.cache.Unref()
		return nil, err
	}
	copied.verified.Store(st.verified.Load())
	frozen.live.Store(copied)
	if *copied.applied.Load() != *st.applied.Load() {
		return nil, errors.Join(errors.New("the copy differs from the store"), frozen.Close())
	}
	return frozen, nil
}
