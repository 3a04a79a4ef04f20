package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"waypost"
	"waypost/edge/lookup"
	"waypost/internal/failpoint"
	"waypost/internal/memlimit"
	"waypost/replication"
)

// Config configures a [DB]. Zero fields mean the default.
type Config struct {
	Dir          string        // required: belongs to the replica alone
	CacheBytes   int64         // of blocks in memory; 64 MiB
	LookupBytes  int64         // memory of the lookup table; a quarter of memlimit.Available; negative: no table
	SyncInterval time.Duration // within which an applied batch is durable; 100 ms
	// VerifyInterval is the time between two readings of all records on disk, which compare
	// them with their checksums and the digest; 24 h; negative: never after the start.
	VerifyInterval time.Duration
	// LogBytes bounds the applied batches that are kept for the followers of this replica,
	// for 72 h at most; 0 keeps none.
	LogBytes int64
	// MinFree is the part of the disk that changes and snapshots leave free. It is checked
	// on the operating system's file system only.
	MinFree       MinFree
	DeletionGuard DeletionGuard // which deletions are held back
	// Arrived is called for each link of a change and of a snapshot, and for the links that
	// the lookup table is filled with. It must neither keep the record nor wait.
	Arrived func(*waypost.Record)
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: metrics are kept but not registered
	FS      vfs.FS                // nil: the operating system's
	Points  *failpoint.Points     // nil: no test stops at its places
}

// DefaultLookupBytes returns the size of lookup tables when none is configured: a quarter
// of the memory that the process may use.
func DefaultLookupBytes() int64 { return memlimit.Available() / 4 }

func (c Config) withDefaults() Config {
	c.CacheBytes = cmp.Or(c.CacheBytes, 64<<20)
	if c.LookupBytes == 0 {
		c.LookupBytes = DefaultLookupBytes()
	}
	if c.Arrived == nil {
		c.Arrived = func(*waypost.Record) {}
	}
	c.SyncInterval = cmp.Or(c.SyncInterval, 100*time.Millisecond)
	c.VerifyInterval = cmp.Or(c.VerifyInterval, 24*time.Hour)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.FS = cmp.Or(c.FS, vfs.Default)
	c.DeletionGuard = c.DeletionGuard.withDefaults()
	return c
}

// DB is a replica. Any number of goroutines may call the methods that read it and the
// methods of replication.Source; one goroutine calls the methods of replication.Sink.
//
// Each part owns its fields. serving.mu is the one lock under which the live store is
// written or replaced. The locks of the other parts are taken under it, never around it.
type DB struct {
	cfg     Config
	metrics *metrics

	storage   storage       // the directory, and how stores in it are opened
	serving   serving       // the live store
	source    source        // what followers are told
	filler    filler        // fills the lookup table and verifies; owned by its goroutine
	syncer    syncer        // makes batches durable; owned by its goroutine
	deletions deletionGuard // holds mass deletions back
	disk      diskSpace     // free space

	saveBytes int // of a snapshot that are made durable at once, or all after saveAfter

	stop    context.CancelFunc
	stopped <-chan struct{} // closed by stop
	work    sync.WaitGroup  // the goroutines of filler and syncer
}

// newDB connects the parts of a replica. It starts no goroutine.
func newDB(cfg Config, cache *pebble.Cache) *DB {
	db := &DB{cfg: cfg, stop: func() {}}
	c := &db.cfg
	db.saveBytes = int(c.Points.Number("bytes of a snapshot that are made durable at once", saveBytes))
	db.deletions.cfg = c.DeletionGuard
	db.disk.dir, db.disk.minFree, db.disk.log = c.Dir, c.MinFree, c.Logger
	m := newMetrics(db)
	db.metrics = m
	db.storage = storage{cfg: c, metrics: m, cache: cache, memTableSize: 16 << 20, errorPause: 100 * time.Millisecond}
	db.serving = serving{
		cfg: c, metrics: m, storage: &db.storage, promotions: newPromotions(), wakeFill: db.filler.wake, logLimiter: oneASecond(),
	}
	db.serving.mu.skipPacing = make(chan struct{})
	db.source = source{serving: &db.serving}
	db.filler = filler{
		cfg: c, metrics: m, serving: &db.serving, unfilled: make(chan struct{}, 1), verifications: make(chan chan<- verified),
	}
	db.syncer = syncer{cfg: c, serving: &db.serving, logLimiter: oneASecond(), dirty: make(chan struct{}, 1)}
	return db
}

// Open opens the replica in a directory, or begins an empty one. A store that cannot be
// read is quarantined, and the replica is empty; that is no error. Open fails, and
// changes nothing, when the directory was written by a newer version, or cannot be used
// at all. No other process may use the directory.
func Open(cfg Config) (_ *DB, err error) {
	if cfg.Dir == "" {
		return nil, errors.New("replica: a directory is required")
	}
	onDisk := cfg.FS == nil
	cfg = cfg.withDefaults()
	cache := pebble.NewCache(cfg.CacheBytes)
	db := newDB(cfg, cache)
	if onDisk {
		db.disk.look = DiskSpace
	}
	if cfg.LookupBytes >= lookup.MinBudget {
		db.filler.budget = lookup.NewBudget(cfg.LookupBytes)
	}
	defer func() {
		if err != nil {
			cache.Unref()
		}
	}()
	if err := db.storage.openDir(); err != nil {
		return nil, err
	}
	st, err := db.storage.findStore()
	if err != nil {
		return nil, err
	}
	db.serving.live.Store(st)
	if err := db.metrics.register(cfg.Metrics); err != nil {
		if st != nil {
			err = errors.Join(err, st.pdb.Close())
		}
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	db.stop, db.stopped = cancel, ctx.Done()
	db.work.Go(func() { db.syncer.syncLoop(ctx) })
	db.work.Go(func() { db.filler.fillLoop(ctx) })
	db.filler.wake()
	return db, nil
}

// Close makes all applied batches durable, and waits for readers to leave. It is called
// once, after the follower has ended. Later reads get an error.
func (db *DB) Close() error {
	db.serving.closed.Store(true)
	db.stop()
	db.serving.skipPacing()
	db.serving.mu.Lock()
	restoring := db.serving.mu.restoring
	db.serving.mu.Unlock()
	var errs []error
	if restoring != nil {
		errs = append(errs, restoring.Suspend())
	}
	errs = append(errs, db.Sync())
	db.work.Wait()
	db.serving.retirements.Wait()
	db.serving.mu.Lock()
	st := db.serving.live.Swap(nil)
	db.serving.mu.Unlock()
	if st != nil {
		st.awaitReaders()
		errs = append(errs, db.serving.closeStore(st))
	}
	db.metrics.unregister(db.cfg.Metrics)
	db.storage.cache.Unref()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the replica: %w", err)
	}
	return nil
}

// Degraded returns the reason why the replica takes no changes at present, and nil while
// it takes them. A degraded replica continues to serve reads.
func (db *DB) Degraded() error {
	if err := db.serving.failed(); err != nil {
		return err
	}
	if db.serving.closed.Load() {
		return nil
	}
	return db.disk.low()
}

// Errors of a replica in which something is missing.
var (
	errClosed = waypost.Errorf(waypost.EUnavailable, "the replica is closed")
	errEmpty  = waypost.Errorf(waypost.EUnavailable, "the replica has not taken its first snapshot yet")
)

// Interfaces by which a follower changes a replica, and others follow it.
var (
	_ replication.Sink     = (*DB)(nil)
	_ replication.Repairer = (*DB)(nil)
	_ replication.Relay    = (*DB)(nil)
	_ replication.Counter  = (*DB)(nil)
)
