package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// touch says that something was applied which a crash would take back.
func (db *DB) touch() {
	select {
	case db.dirty <- struct{}{}:
	default:
	}
}

// syncLoop makes what was applied durable within the sync interval.
func (db *DB) syncLoop(ctx context.Context) {
	timer := time.NewTimer(db.cfg.SyncInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-db.dirty:
		}
		timer.Reset(db.cfg.SyncInterval)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := db.sync(); err != nil && db.noise.allow() {
			db.cfg.Logger.Error("applied changes cannot be made durable", "error", err)
		}
	}
}

// Sync makes durable at once what is applied by now, for those who wait for it.
func (db *DB) Sync() error { return db.sync() }

// sync makes all that is applied now durable. A store that has failed stays as it
// is: what cannot be synced is not synced by trying again.
func (db *DB) sync() (err error) {
	db.mu.Lock()
	st := db.pin(0)
	if st == nil {
		db.mu.Unlock()
		return nil
	}
	defer st.unpin(0)
	if st.pdb == nil || st.health.lasting.Load() != nil || *st.synced.Load() == st.applied.Load().position {
		db.mu.Unlock()
		return nil
	}
	at := st.applied.Load().position
	db.cfg.Points.Hit("sync store: begun")
	// An empty record with a sync behind all that was written before. Only the
	// queueing is under the lock: batches go on while the disk works.
	b := st.pdb.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	err = b.LogData(nil, nil)
	if err == nil {
		err = st.pdb.ApplyNoSyncWait(b, pebble.Sync)
	}
	db.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sync the WAL: %w", err)
	}
	if err := b.SyncWait(); err != nil {
		return fmt.Errorf("sync the WAL: %w", err)
	}
	if f := st.health.lasting.Load(); f != nil {
		return fmt.Errorf("sync the WAL: %w", f.err)
	}
	db.cfg.Points.Hit("sync store: done")
	db.mu.Lock()
	defer db.mu.Unlock()
	// A batch that deletes may have synced a later position meanwhile, and a repair one of
	// another history.
	if s := st.synced.Load(); at.Epoch == st.applied.Load().position.Epoch && (s.Epoch != at.Epoch || s.Seq < at.Seq) {
		st.synced.Store(&at)
	}
	return nil
}
