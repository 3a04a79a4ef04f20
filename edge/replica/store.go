package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"

	"waypost"
	"waypost/edge/lookup"
	"waypost/internal/failpoint"
)

// store is one Pebble store: the live one, a fresh one that is being filled, or an old
// one until its last readers have left.
type store struct {
	// Set when the store is opened.
	name         string // of its directory within the replica's
	pdb          *pebble.DB
	health       *health
	memTableSize int // bytes
	points       *failpoint.Points
	torn         bool // the MANIFEST was damaged

	// Loaded by readers at any time, and replaced by the writer.
	applied  atomic.Pointer[state]
	synced   atomic.Pointer[waypost.Position] // survives a crash
	table    atomic.Pointer[lookup.Table]     // nil: there is none
	verified atomic.Bool                      // since the store was opened, the records have added up to the digest
	lastAt   atomic.Int64                     // commit time of the last transaction, by the origin's clock; 0: unknown
	notes                                     // domains, salts and patterns
	pins                                      // counts the readers

	// guarded belongs to the writer: serving.mu guards it in the live store, and the
	// goroutine of a restore owns it in the store that it fills.
	guarded struct {
		loaded bool      // the lookup table was given everything
		check  *storeSum // nil: none is under way

		// newest is Pebble's newest sequence number in the tables that the store was opened
		// with, until a write has got a newer one.
		newest pebble.SeqNum

		log        logIndex
		tally      tally // of deletions
		sinceCheck int   // bytes written since the limits were checked
	}

	counted servingCount // owned by the restore that compares stores
}

// stripes is the number of counters that readers of a store are spread over.
const stripes = 64

// pins counts the readers of a store, which must not be closed before they have left.
type pins struct {
	n       [stripes]pinCount
	retired atomic.Bool
	drained chan struct{} // gets a token when a retired store's stripe empties
}

// pinCount has a cache line of its own.
type pinCount struct {
	n atomic.Int64
	_ [56]byte
}

func (p *pins) pin(slot uint16) { p.n[slot%stripes].n.Add(1) }

// unpin releases a store that serving.pin returned. The last reader of a retired store
// signals that it has left.
func (p *pins) unpin(slot uint16) {
	if p.n[slot%stripes].n.Add(-1) == 0 && p.retired.Load() {
		select {
		case p.drained <- struct{}{}:
		default:
		}
	}
}

// awaitReaders returns when no reader is left. The store must have been replaced as the
// live one. It suffices to see each stripe empty once, because a later reader sees that
// the store is not live, and leaves without reading it.
func (p *pins) awaitReaders() {
	p.retired.Store(true)
	for i := range p.n {
		for p.n[i].n.Load() != 0 {
			<-p.drained
		}
	}
}

const (
	// Beyond these, writing waits in Go for flushes and compactions, where it can be
	// canceled. Pebble's own limits are set out of reach, because its waiting cannot be
	// ended, not even to close the store.
	memTableLimit = 4
	l0Limit       = 24

	// blockSize is the size of the blocks that tables are compressed in. Larger ones take
	// less space, and longer to read one link from.
	blockSize = 16 << 10
)

// options returns the options that all stores share.
func (s *storage) options() *pebble.Options {
	fs := s.cfg.FS
	opts := &pebble.Options{
		FS:                          fs,
		WALDir:                      pebble.MakeStoreRelativePath(fs, "wal"), // so that diskGuard can tell its files
		Cache:                       s.cache,
		FormatMajorVersion:          pebble.FormatTableFormatV6, // pinned: see storeFormat
		MemTableSize:                uint64(s.memTableSize),
		MemTableStopWritesThreshold: 16 * memTableLimit,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		MaxOpenFiles:                4096,
		CompactionConcurrencyRange:  func() (int, int) { return 1, workers() },
	}
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionGood })
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = blockSize
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	opts.Levels[len(opts.Levels)-1].FilterPolicy = pebble.NoFilterPolicy // Get does not ask it
	return opts
}

// tableOptions returns the options of the tables that a restore makes, which go to the
// last level. They are compressed with less effort than the tables of compactions, which
// makes them larger by a fiftieth and saves a third of the time.
func (s *storage) tableOptions() sstable.WriterOptions {
	opts := s.options()
	opts.EnsureDefaults()
	w := opts.MakeWriterOptions(len(opts.Levels)-1, opts.FormatMajorVersion.MaxTableFormat())
	quick := *w.Compression
	quick.Name = "Snapshot"
	quick.DataBlocks, quick.ValueBlocks = block.BalancedCompression.DataBlocks, block.BalancedCompression.ValueBlocks
	w.Compression = &quick
	return w
}

// openStore creates a store, or opens one that exists. Without that distinction Pebble
// would take a store that has lost its manifest for a new one, and the rest in the WAL
// for the whole store.
func (s *storage) openStore(name string, fresh bool) (_ *store, err error) {
	log := s.cfg.Logger.With("store", name)
	dir := s.path(name)
	h := newHealth(log)
	opts := s.options()
	opts.FS = &diskGuard{FS: s.cfg.FS, health: h, walDir: s.cfg.FS.PathJoin(dir, "wal"), pause: s.errorPause}
	opts.Logger, opts.EventListener = logger{health: h}, h.listener(s.metrics)
	opts.ErrorIfExists, opts.ErrorIfNotExists = fresh, !fresh
	if s.readOnly {
		opts.ReadOnly, opts.FS = true, withoutLock{opts.FS}
	}
	pdb, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", name, err)
	}
	st := &store{name: name, pdb: pdb, health: h, memTableSize: s.memTableSize, points: s.cfg.Points}
	if !fresh {
		if st.guarded.newest, err = newestInTables(pdb); err != nil {
			return nil, errors.Join(fmt.Errorf("open store %s: %w", name, err), pdb.Close())
		}
	}
	st.log, st.domains, st.byDay = log, map[waypost.DomainID]waypost.Domain{}, map[int32]*waypost.Salt{}
	st.codes, st.changed = map[waypost.DomainID]map[string]bool{}, map[waypost.DomainID]bool{}
	st.drained = make(chan struct{}, 1)
	st.verified.Store(fresh)
	if err := h.err(); err != nil { // diskGuard kept it from Pebble
		return nil, errors.Join(fmt.Errorf("open store %s: %w", name, err), pdb.Close())
	}
	return st, nil
}

// openExisting opens a store that must exist and hold a state.
func (s *storage) openExisting(name string) (*store, error) {
	if _, err := s.cfg.FS.Stat(s.path(name)); err != nil {
		return nil, fmt.Errorf("open store %s: %w", name, err)
	}
	torn := checkManifest(s.cfg.FS, s.path(name))
	if errors.Is(torn, errManifest) { // Pebble reports all other errors
		s.metrics.torn.Inc()
		s.cfg.Logger.Error("cannot trust the replica before it is verified, because it may have lost its newest changes", "store", name, "error", torn)
	}
	st, err := s.openStore(name, false)
	if err != nil {
		return nil, err
	}
	st.torn = errors.Is(torn, errManifest)
	err = st.load()
	if err == nil {
		err = st.loadLog()
	}
	if err == nil {
		if f := st.health.lasting.Load(); f != nil {
			err = f.err
		}
	}
	if err != nil {
		return nil, errors.Join(err, st.pdb.Close())
	}
	return st, nil
}

// load reads the state of a store that was filled before.
func (st *store) load() error {
	s, err := readState(st.pdb)
	if err != nil {
		return fmt.Errorf("read the state of store %s: %w", st.name, err)
	}
	if st.guarded.tally, err = loadTally(st.pdb); err != nil {
		return err
	}
	st.applied.Store(&s)
	st.synced.Store(&s.position)
	return st.loadNotes()
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

// commit makes a batch, and the state after it, part of the store. With sync it returns
// only when the batch is durable. After an error the store takes no further batches. Once
// Pebble shows the batch, and before the position does, commit calls publish.
func (st *store) commit(ctx context.Context, b *pebble.Batch, next *state, sync bool, publish func()) error {
	if err := st.room(ctx, b.Len()); err != nil {
		return err
	}
	var buf [stateSize]byte
	if err := b.Set(stateKey, next.append(buf[:0]), nil); err != nil {
		return fmt.Errorf("write the state: %w", err)
	}
	if err := markRepair(b, st.applied.Load().repairing, next.repairing); err != nil {
		return err
	}
	st.points.Hit("commit batch: begun")
	// Pebble returns no error here when the WAL cannot be written: it asks the logger's
	// Fatalf to end the process. The health knows.
	var err error
	if sync {
		err = st.pdb.ApplyNoSyncWait(b, pebble.Sync)
	} else {
		err = st.pdb.Apply(b, pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := st.judgeNumber(b); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	st.points.Hit("commit batch: written")
	publish()
	if sync {
		if err := b.SyncWait(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	if f := st.health.lasting.Load(); f != nil {
		return fmt.Errorf("commit: %w", f.err)
	}
	st.points.Hit("commit batch: done")
	if next.repairing {
		st.guarded.log = logIndex{}
		st.lastAt.Store(0) // that transaction may be of another history
	}
	st.applied.Store(next)
	if sync {
		st.synced.Store(&next.position)
	}
	return nil
}

// room waits until flushes and compactions have made room for the next n bytes, or until
// the store has failed.
func (st *store) room(ctx context.Context, n int) error {
	if st.guarded.sinceCheck += n; st.guarded.sinceCheck < st.memTableSize/4 {
		return nil
	}
	for {
		m := st.pdb.Metrics()
		// By size and not by count, because the first memtables are small, and Pebble
		// gathers several before it flushes any.
		if m.MemTable.Size <= uint64(memTableLimit*st.memTableSize) && m.Levels[0].Sublevels <= l0Limit {
			st.guarded.sinceCheck = 0
			return nil
		}
		select {
		case <-st.health.moved:
			if err := st.health.err(); err != nil {
				return fmt.Errorf("wait for the disk: %w", err)
			}
		case <-st.health.broken:
			return fmt.Errorf("wait for the disk: %w", st.health.err())
		case <-ctx.Done():
			return fmt.Errorf("wait for the disk: %w", ctx.Err())
		}
	}
}

// scan visits every record, and returns the state at which they were read.
func (st *store) scan(ctx context.Context, visit func(record []byte) error) (s state, err error) {
	it, err := st.pdb.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{prefixMeta}, UpperBound: recordEnd})
	if err != nil {
		return s, fmt.Errorf("scan: %w", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("scan: %w", closeErr)
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return s, fmt.Errorf("scan: %w", err)
		}
		switch key := it.Key(); {
		case bytes.Equal(key, stateKey):
			if s, err = decodeState(value); err != nil {
				return s, err
			}
		case key[0] == prefixRecord:
			if err := visit(value); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}
