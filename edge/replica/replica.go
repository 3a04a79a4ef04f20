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
	"waypost/internal/failpoint"
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
	// LogBytes and LogAge bound the applied batches that are kept for those who follow this
	// replica; LogBytes 0: none are; LogAge default 72 h.
	LogBytes int64
	LogAge   time.Duration
	// MinFree is what changes and snapshots leave free of the disk. It is not looked after on
	// another file system than the operating system's.
	MinFree    MinFree
	Valve      Valve // what is held back
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: metrics are kept but not registered
	FS         vfs.FS                // nil: the operating system's
	Points     *failpoint.Points     // nil: nothing is done at its places
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
	saveBytes    int           // of a snapshot that are made durable at once
	saveAfter    time.Duration // or at the latest
	errorPause   time.Duration // for which a failed background write is held back

	live   atomic.Pointer[store] // nil: nothing is held
	closed atomic.Bool
	frozen bool // takes no changes: see Freeze

	budget       *lookup.Budget // nil: there is no lookup table
	enlargeCache func()         // nil: it has its size; owned by the filling
	wanted       *wanted
	space        space
	ended        [4]atomic.Uint64 // what tables that are gone have answered

	mu        sync.Mutex // held while the live store or its table is written or replaced
	restoring *restore
	repairing *repair
	detached  bool

	valve       Valve
	accepted    waypost.Position // deletions up to there are not held back
	shrinkUntil time.Time        // nor is a snapshot or repair that leaves little

	dirty    chan struct{} // gets a token when something unsynced was applied
	unfilled chan struct{} // gets a token when the lookup table may need filling
	stop     context.CancelFunc
	work     sync.WaitGroup // the syncing and the filling

	// What makes a replica a source, or not: see source.go.
	origin   atomic.Pointer[replication.Head] // as last heard; nil: never
	diverged atomic.Bool                      // it differs from its own source
	restores atomic.Int32                     // under way
	repairs  atomic.Int32                     // under way
	decoders sync.Pool                        // of *replication.BatchDecoder
	hints    sync.Mutex
	hint     chan struct{} // closed when the position moves next; nil: nobody waits

	retirements sync.WaitGroup
	retiring    atomic.Int64 // stores that are not closed yet
}

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
	if cfg.LogAge == 0 {
		cfg.LogAge = 72 * time.Hour
	}
	if cfg.LookupBytes == 0 {
		cfg.LookupBytes = lookup.Available() / 4
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var look func(string) (free, total int64, err error)
	if cfg.FS == nil {
		cfg.FS = vfs.Default
		look = diskSpace
	}
	db := &DB{
		cfg: cfg, fs: cfg.FS, space: space{look: look}, dirty: make(chan struct{}, 1), unfilled: make(chan struct{}, 1), wanted: newWanted(), valve: cfg.Valve.withDefaults(),
		memTableSize: 16 << 20, saveBytes: int(cfg.Points.Number("bytes of a snapshot that are made durable at once", saveBytes)), saveAfter: saveAfter, errorPause: 100 * time.Millisecond,
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
		errs = append(errs, restoring.Suspend())
	}
	errs = append(errs, db.sync())
	db.work.Wait()
	db.retirements.Wait()
	db.mu.Lock()
	st := db.live.Swap(nil)
	if st != nil {
		st.comparing.end(errCompared)
	}
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
	if err := db.failed(); err != nil {
		return err
	}
	if db.closed.Load() || db.frozen {
		return nil
	}
	return db.lowDisk()
}

// failed is what is wrong with the store.
func (db *DB) failed() error {
	if st := db.live.Load(); st != nil {
		return st.health.err()
	}
	return nil
}
