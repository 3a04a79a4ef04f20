package replica

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
)

// errFrozen is what a frozen replica answers to changes.
var errFrozen = waypost.Errorf(waypost.EUnavailable, "the replica is frozen")

// Freeze gives a second replica that holds what this one holds now, for ever: it
// answers, and takes no changes. Its files are hard links in dir, which must not
// exist, lie on the same file system, and be removed by the caller after Close. This
// replica can be closed meanwhile, so that another process opens it. It fails, and
// leaves nothing behind, when there is nothing to hold yet, or when the store has
// failed and may miss what it has shown.
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
	defer func() {
		if err != nil {
			err = fmt.Errorf("freeze the replica: %w", errors.Join(err, db.fs.RemoveAll(dir)))
		}
	}()
	if err := st.pdb.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return nil, err
	}
	if err := db.moveLogs(dir); err != nil {
		return nil, err
	}
	frozen := &DB{
		cfg: db.cfg, fs: db.fs, cache: db.cache, frozen: true, stop: func() {},
		memTableSize: db.memTableSize, errorPause: db.errorPause,
	}
	frozen.cfg.Dir, frozen.cfg.Registerer = db.fs.PathDir(dir), nil
	frozen.metrics = newMetrics(frozen)
	frozen.cache.Ref()
	copied, err := frozen.openExisting(db.fs.PathBase(dir))
	if err != nil {
		frozen.cache.Unref()
		return nil, err
	}
	frozen.live.Store(copied)
	if *copied.applied.Load() != *st.applied.Load() {
		return nil, errors.Join(errors.New("the copy is not what was to be copied"), frozen.Close())
	}
	return frozen, nil
}

// moveLogs puts the WAL, which Pebble copies beside the tables, where stores have it.
func (db *DB) moveLogs(dir string) error {
	names, err := db.fs.List(dir)
	if err != nil {
		return err
	}
	wal := db.fs.PathJoin(dir, "wal")
	if err := db.fs.MkdirAll(wal, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		if at := len(name) - len(".log"); at < 0 || name[at:] != ".log" {
			continue
		}
		if err := db.fs.Rename(db.fs.PathJoin(dir, name), db.fs.PathJoin(wal, name)); err != nil {
			return err
		}
	}
	return nil
}
