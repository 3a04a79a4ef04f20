package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/edge/lookup"
	"waypost/replication"
)

// Config configures a [DB]. Zero fields mean the default.
type Config struct {
	Dir          string        // required: belongs to the replica alone
	CacheBytes   int64         // of blocks in memory; 128 MiB
	LookupBytes  int64         // of memory for the lookup table; a quarter of what lookup.Available gives; negative: no table
	SyncInterval time.Duration // within which an applied batch is durable; 100 ms
	// VerifyInterval is the time in which all records on disk are read once, slot by slot, and
	// held against their checksums and the digest; 24 h; negative: never.
	VerifyInterval time.Duration
	Logger         *slog.Logger
	Registerer     prometheus.Registerer // nil: metrics are kept but not registered
	FS             vfs.FS                // nil: the operating system's
}

// DB is a replica. Link and Domain may be called by any number of goroutines; the
// methods of replication.Sink by one.
type DB struct {
	cfg     Config
	fs      vfs.FS
	cache   *pebble.Cache
	dirLock *pebble.Lock
	metrics *metrics
	noise   limiter

	format       uint32        // of the stores that are made; 0: the present one
	memTableSize int           // bytes
	errorPause   time.Duration // for which a failed background write is held back

	live   atomic.Pointer[store] // nil: nothing is held
	closed atomic.Bool
	frozen bool // takes no changes: see Freeze

	budget *lookup.Budget // nil: there is no lookup table
	wanted *wanted
	ended  [4]atomic.Uint64 // what tables that are gone have answered

	mu        sync.Mutex // held while the live store or its table is written or replaced
	restoring *restore
	repairing *repair
	detached  bool

	dirty    chan struct{} // gets a token when something unsynced was applied
	unfilled chan struct{} // gets a token when the lookup table may need filling
	stop     context.CancelFunc
	work     sync.WaitGroup // the syncing and the filling

	retirements sync.WaitGroup
	retiring    atomic.Int64 // stores that are not closed yet
}

var _ replication.Sink = (*DB)(nil)

// Open opens the replica in a directory, or begins an empty one. A store that
// cannot be read is set aside, and the replica is empty: that is no error. It is
// one when the directory is in use, was written by a newer version, or cannot be
// used at all; then nothing is changed.
func Open(cfg Config) (_ *DB, err error) {
	if cfg.Dir == "" {
		return nil, errors.New("replica: a directory is required")
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = 128 << 20
	}
	if cfg.SyncInterval == 0 {
		cfg.SyncInterval = 100 * time.Millisecond
	}
	if cfg.VerifyInterval == 0 {
		cfg.VerifyInterval = 24 * time.Hour
	}
	if cfg.LookupBytes == 0 {
		cfg.LookupBytes = lookup.Available() / 4
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	db := &DB{
		cfg: cfg, fs: cfg.FS, dirty: make(chan struct{}, 1), unfilled: make(chan struct{}, 1), wanted: newWanted(),
		memTableSize: 16 << 20, errorPause: 100 * time.Millisecond,
	}
	if cfg.LookupBytes >= lookup.MinBudget {
		db.budget = lookup.NewBudget(cfg.LookupBytes)
	}
	db.metrics = newMetrics(db)
	if err := db.lock(); err != nil {
		return nil, err
	}
	db.cache = pebble.NewCache(cfg.CacheBytes)
	defer func() {
		if err != nil {
			db.cache.Unref()
			err = errors.Join(err, db.dirLock.Close())
		}
	}()
	if err := db.findStore(); err != nil {
		return nil, err
	}
	if err := db.metrics.register(cfg.Registerer); err != nil {
		if st := db.live.Load(); st != nil {
			err = errors.Join(err, st.pdb.Close())
		}
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	db.stop = cancel
	db.work.Go(func() { db.syncLoop(ctx) })
	db.work.Go(func() { db.fillLoop(ctx) })
	if cfg.VerifyInterval > 0 {
		db.work.Go(func() { db.verifyLoop(ctx) })
	}
	db.wakeFill()
	return db, nil
}

// Close makes what was applied durable, waits for readers to leave, and gives the
// directory back. It is called once, after the follower has ended. Reads that
// come later get an error.
func (db *DB) Close() error {
	db.closed.Store(true)
	db.stop()
	db.mu.Lock()
	restoring := db.restoring
	db.mu.Unlock()
	var errs []error
	if restoring != nil {
		errs = append(errs, restoring.Abort())
	}
	errs = append(errs, db.sync())
	db.work.Wait()
	db.retirements.Wait()
	db.mu.Lock()
	st := db.live.Swap(nil)
	db.mu.Unlock()
	if st != nil {
		st.awaitReaders()
		errs = append(errs, db.end(st))
	}
	db.metrics.unregister(db.cfg.Registerer)
	db.cache.Unref()
	if db.dirLock != nil {
		errs = append(errs, db.dirLock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the replica: %w", err)
	}
	return nil
}

// end closes a store that nobody reads any more, and its table.
func (db *DB) end(st *store) error {
	if t := st.table.Swap(nil); t != nil {
		db.endTable(t, db.count(t, [4]uint64{}))
	}
	return st.closePebble()
}

// count keeps what a table has answered for the metrics, when it is not the live
// store's any more. What was counted before is left out.
func (db *DB) count(t *lookup.Table, before [4]uint64) [4]uint64 {
	now := answers(t)
	for i, n := range now {
		db.ended[i].Add(n - before[i])
	}
	return now
}

// endTable closes a table of which some answers were counted.
func (db *DB) endTable(t *lookup.Table, counted [4]uint64) {
	t.Close()
	db.count(t, counted)
}

func (st *store) closePebble() error {
	if st.pdb == nil {
		return nil
	}
	if err := st.pdb.Close(); err != nil {
		return fmt.Errorf("close store %s: %w", st.name, err)
	}
	return nil
}

// pin gives the live store, nil when there is none, and keeps it from being
// closed until unpin, with the same slot, is called. It takes no lock.
func (db *DB) pin(slot uint16) *store {
	for {
		st := db.live.Load()
		if st == nil || db.hold(st, slot) {
			return st
		}
	}
}

// hold pins a store that was the live one, unless it is so no more: then it may be
// closing, and must not be looked at.
func (db *DB) hold(st *store, slot uint16) bool {
	st.pins[slot%stripes].n.Add(1)
	if db.live.Load() == st {
		return true
	}
	st.unpin(slot)
	return false
}

// retire closes a store that is not live any more, once its readers have left, and
// removes it. The caller holds db.mu.
func (db *DB) retire(st *store) {
	db.retiring.Add(1)
	var counted [4]uint64
	table := st.table.Load()
	if table != nil {
		counted = db.count(table, counted)
	}
	db.retirements.Go(func() {
		defer db.wakeFill() // with the memory that the old table had
		defer db.retiring.Add(-1)
		st.awaitReaders()
		if table != nil {
			st.table.Store(nil)
			db.endTable(table, counted)
		}
		if err := st.closePebble(); err != nil {
			db.cfg.Logger.Warn("closing the old store", "error", err)
		}
		if f := st.health.failed(); f != nil && f.corrupt {
			if err := db.quarantine(st.name, f.err); err != nil {
				db.cfg.Logger.Error("the old store cannot be set aside", "error", err)
			}
			return
		}
		if err := db.fs.RemoveAll(db.path(st.name)); err != nil {
			db.cfg.Logger.Warn("the old store is removed at the next start", "error", err)
		}
	})
}

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

// Synced is the position that a crash cannot take back; zero when nothing is held, or a
// repair is under way.
func (db *DB) Synced() waypost.Position {
	if st := db.live.Load(); st != nil && !st.applied.Load().repairing {
		return *st.synced.Load()
	}
	return waypost.Position{}
}

// Digest is the XOR of the stamps of all records at the position.
func (db *DB) Digest() uint64 {
	if st := db.live.Load(); st != nil {
		return st.applied.Load().digest
	}
	return 0
}

// Degraded says why the replica takes no changes at present, and nil while it
// does. It serves reads all the same.
func (db *DB) Degraded() error {
	if st := db.live.Load(); st != nil {
		return st.health.err()
	}
	return nil
}

// Apply implements replication.Sink. While the replica is degraded it fails; when
// only a fresh store can heal it, and the disk takes writes again, the error is
// ErrDiverged, so that the follower brings one.
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
	if st.applied.Load().repairing {
		return fmt.Errorf("%w: a repair is under way", replication.ErrDiverged)
	}
	w := newWriter(st)
	err := w.take(b, 0)
	if err == nil {
		err = w.commit(ctx)
	}
	if err = errors.Join(err, w.close()); err != nil {
		return err
	}
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
		return fmt.Errorf("%w: the digest at sequence %d is %016x and not %016x", replication.ErrDiverged,
			s.position.Seq, s.digest, h.Digest)
	}
	return nil
}

// Records visits every record that the live store holds, as encoded, at one
// position, which it gives. What visit gets is its own only until it returns.
func (db *DB) Records(ctx context.Context, visit func(record []byte) error) (waypost.Position, error) {
	st := db.pin(0)
	if st == nil {
		return waypost.Position{}, nil
	}
	defer st.unpin(0)
	s, err := st.scan(ctx, visit)
	return s.position, err
}

// Recompute reads every record and gives the digest and the count that they make,
// to be held against what is kept along.
func (db *DB) Recompute(ctx context.Context) (digest, records uint64, err error) {
	_, err = db.Records(ctx, func(raw []byte) error {
		var r waypost.Record
		if err := replication.DecodeRecord(raw, &r); err != nil && !errors.Is(err, replication.ErrContent) {
			return err
		}
		digest ^= r.Stamp
		records++
		return nil
	})
	return digest, records, err
}
