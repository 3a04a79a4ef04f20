package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/time/rate"
)

// syncer makes applied batches durable within the sync interval.
type syncer struct {
	cfg        *Config
	serving    *serving
	logLimiter *rate.Limiter
	dirty      chan struct{} // gets a token when something unsynced was applied
}

// touch reports that a batch was applied that a crash would take back.
func (s *syncer) touch() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

func (s *syncer) syncLoop(ctx context.Context) {
	timer := time.NewTimer(s.cfg.SyncInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty:
		}
		timer.Reset(s.cfg.SyncInterval)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := s.syncStore(); err != nil && s.logLimiter.Allow() {
			s.cfg.Logger.Error("cannot make applied changes durable", "error", err)
		}
	}
}

// Sync makes all batches durable that were applied before the call. A store that has
// failed stays as it is, because repeating a failed sync does not make the lost writes
// durable.
func (db *DB) Sync() error { return db.syncer.syncStore() }

func (s *syncer) syncStore() (err error) {
	mu := &s.serving.mu
	mu.Lock()
	st := s.serving.pin(0)
	if st == nil {
		mu.Unlock()
		return nil
	}
	defer st.unpin(0)
	if st.pdb == nil || st.health.lasting.Load() != nil || *st.synced.Load() == st.applied.Load().position {
		mu.Unlock()
		return nil
	}
	at := st.applied.Load().position
	s.cfg.Points.Hit("sync store: begun")
	// An empty record with a sync follows all that was written before. Only the queueing is
	// under the lock, so that batches continue while the disk works.
	b := st.pdb.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	err = b.LogData(nil, nil)
	if err == nil {
		err = st.pdb.ApplyNoSyncWait(b, pebble.Sync)
	}
	mu.Unlock()
	if err != nil {
		return fmt.Errorf("sync the WAL: %w", err)
	}
	if err := b.SyncWait(); err != nil {
		return fmt.Errorf("sync the WAL: %w", err)
	}
	if f := st.health.lasting.Load(); f != nil {
		return fmt.Errorf("sync the WAL: %w", f.err)
	}
	s.cfg.Points.Hit("sync store: done")
	mu.Lock()
	defer mu.Unlock()
	// During the sync, a batch that deletes may have synced a later position, or a repair
	// a position of another history.
	if p := st.synced.Load(); at.Epoch == st.applied.Load().position.Epoch && (p.Epoch != at.Epoch || p.Seq < at.Seq) {
		st.synced.Store(&at)
	}
	return nil
}
