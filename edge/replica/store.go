package replica

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"waypost"
	"waypost/edge/lookup"
	"waypost/internal/failpoint"
	"waypost/replication"
)

// stripes is the number of counters that readers of a store are counted in.
const stripes = 64

const (
	// Beyond these, writing waits for flushes and compactions in Go, where it can
	// be given up. Pebble's own limits are set out of reach: its waiting cannot be
	// ended, not even to close the store.
	memTableLimit = 4
	l0Limit       = 24
)

// store is one Pebble store: the live one, a fresh one that is being filled, or
// an old one whose last readers are leaving.
type store struct {
	name         string     // of its directory within the replica's
	pdb          *pebble.DB // nil: the replica is detached
	health       *health
	memTableSize int // bytes
	points       *failpoint.Points

	applied atomic.Pointer[state]            // what reads see
	synced  atomic.Pointer[waypost.Position] // what survives a crash
	hosts   atomic.Pointer[domainMap]
	table   atomic.Pointer[lookup.Table]        // nil: there is none
	loaded  bool                                // the table was given everything; guarded by DB.mu
	domains map[waypost.DomainID]waypost.Domain // owned by the writer

	salts  atomic.Pointer[saltTable]
	byDays map[int32]*waypost.Salt // nil: destroyed; owned by the writer

	log    logIndex     // owned by the writer
	lastAt atomic.Int64 // when the last transaction was committed, by the origin's clock; 0: unknown

	round     *round      // of verifying; nil: none has begun; guarded by DB.mu
	comparing *comparison // with the source; nil: there is none; guarded by DB.mu

	tally   tally   // of deletions; guarded by DB.mu
	counted counted // owned by the restore that judges

	sinceCheck int // bytes written since the limits were looked at; owned by the writer

	pins    [stripes]pinCount
	retired atomic.Bool
	drained chan struct{} // gets a token when a retired store's stripe empties
}

// pinCount has a cache line to itself.
type pinCount struct {
	n atomic.Int64
	_ [56]byte
}

// storeOptions are those of all stores, but for what belongs to one.
func (db *DB) storeOptions() *pebble.Options {
	opts := &pebble.Options{
		FS:                          db.fs,
		WALDir:                      pebble.MakeStoreRelativePath(db.fs, "wal"), // apart, so that guard can tell
		Cache:                       db.cache,
		FormatMajorVersion:          pebble.FormatTableFormatV6, // pinned: see storeFormat
		ReadOnly:                    db.frozen,
		MemTableSize:                uint64(db.memTableSize),
		MemTableStopWritesThreshold: 16 * memTableLimit,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		MaxOpenFiles:                4096,
		CompactionConcurrencyRange:  func() (int, int) { return 1, workers() },
	}
	compress(opts)
	return opts
}

// openStore creates a store, or opens one that is there. Without that distinction Pebble
// would take a store that has lost its manifest for a new one, and what is left in the WAL
// for all of it.
func (db *DB) openStore(name string, fresh bool) (_ *store, err error) {
	log := db.cfg.Logger.With("store", name)
	dir := db.fs.PathJoin(db.cfg.Dir, name)
	h := newHealth(log)
	opts := db.storeOptions()
	opts.FS = &guard{FS: db.fs, health: h, walDir: db.fs.PathJoin(dir, "wal"), pause: db.errorPause}
	opts.Logger, opts.EventListener = logger{health: h}, h.listener(db.metrics)
	opts.ErrorIfExists, opts.ErrorIfNotExists = fresh, !fresh
	pdb, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", name, err)
	}
	st := &store{
		name: name, pdb: pdb, health: h, memTableSize: db.memTableSize, points: db.cfg.Points,
		domains: map[waypost.DomainID]waypost.Domain{},
		byDays:  map[int32]*waypost.Salt{}, drained: make(chan struct{}, 1),
	}
	if err := h.err(); err != nil { // the guard kept it from Pebble
		return nil, errors.Join(fmt.Errorf("open store %s: %w", name, err), pdb.Close())
	}
	return st, nil
}

// blockSize is that of the blocks that tables are compressed in. Larger ones take less
// space, and longer to read one link from.
const blockSize = 16 << 10

// compress chooses compression and filters. Get does not ask the filters of the last level.
func compress(opts *pebble.Options) {
	opts.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionGood })
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = blockSize
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	opts.Levels[len(opts.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
}

// load reads what a store that was filled before holds.
func (st *store) load() error {
	s, err := readState(st.pdb)
	if err != nil {
		return fmt.Errorf("read the state of store %s: %w", st.name, err)
	}
	if st.tally, err = loadTally(st.pdb); err != nil {
		return err
	}
	st.applied.Store(&s)
	st.synced.Store(&s.position)
	return st.loadNotes()
}

// readState reads the state that a store, or a snapshot of it, holds.
func readState(from pebble.Reader) (s state, err error) {
	raw, closer, err := from.Get(stateKey)
	if err != nil {
		return s, err
	}
	s, err = decodeState(raw)
	if err = errors.Join(err, closer.Close()); err != nil {
		return s, err
	}
	switch _, closer, err := from.Get(repairKey); {
	case err == nil:
		s.repairing = true
		return s, closer.Close()
	case !errors.Is(err, pebble.ErrNotFound):
		return s, err
	}
	return s, nil
}

// commit makes a batch, and the state after it, part of the store. With sync it
// returns only when the batch is durable. After an error the store takes no more.
// Once Pebble shows the batch, and before the position does, publish is called.
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
	// Pebble gives no error here when the WAL cannot be written: it asks the
	// logger's Fatalf to end the process. The health knows.
	var err error
	if sync {
		err = st.pdb.ApplyNoSyncWait(b, pebble.Sync)
	} else {
		err = st.pdb.Apply(b, pebble.NoSync)
	}
	if err != nil {
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
		st.log = logIndex{}
		st.lastAt.Store(0) // it was of a transaction that may be of another history
	}
	st.applied.Store(next)
	if sync {
		st.synced.Store(&next.position)
	}
	return nil
}

// room waits until flushes and compactions have kept up with the n bytes that
// come next, or until that cannot be hoped for.
func (st *store) room(ctx context.Context, n int) error {
	if st.sinceCheck += n; st.sinceCheck < st.memTableSize/4 {
		return nil
	}
	for {
		m := st.pdb.Metrics()
		// By size and not by count: the first memtables are small, and Pebble lets
		// several gather before it flushes any.
		if m.MemTable.Size <= uint64(memTableLimit*st.memTableSize) && m.Levels[0].Sublevels <= l0Limit {
			st.sinceCheck = 0
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

// unpin lets a store go that DB.pin gave. The last reader of a retired store says
// so.
func (st *store) unpin(slot uint16) {
	if st.pins[slot%stripes].n.Add(-1) == 0 && st.retired.Load() {
		select {
		case st.drained <- struct{}{}:
		default:
		}
	}
}

// awaitReaders returns when no reader is left. The store must not be live any
// more. It suffices to see each stripe empty once: who comes later sees that the
// store is not live, and turns away without a look at it.
func (st *store) awaitReaders() {
	st.retired.Store(true)
	for i := range st.pins {
		for st.pins[i].n.Load() != 0 {
			<-st.drained
		}
	}
}

// scan visits every record, and gives the state at which they were read.
func (st *store) scan(ctx context.Context, visit func(record []byte) error) (s state, err error) {
	if st.pdb == nil {
		return s, errDetached
	}
	it, err := st.pdb.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: []byte{prefixMeta}, UpperBound: []byte{prefixRecord + 1},
	})
	if err != nil {
		return s, fmt.Errorf("scan: %w", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("scan: %w", closeErr)
		}
	}()
	var record []byte
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
			if record, err = appendRecord(record[:0], key, value); err != nil {
				return s, err
			}
			if err := visit(record); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// loadNotes reads the records of domains, key ranges and salts, and skips all others:
// within each slot links lie before them, and leases between ranges and salts.
func (st *store) loadNotes() (err error) {
	it, err := st.pdb.NewIter(&pebble.IterOptions{
		LowerBound: []byte{prefixRecord}, UpperBound: []byte{prefixRecord + 1},
	})
	if err != nil {
		return fmt.Errorf("read domains, ranges and salts: %w", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("read domains, ranges and salts: %w", closeErr)
		}
	}()
	seek := func(slot uint16, kind waypost.Kind) bool {
		return it.SeekGE(appendRecordKey(nil, slot, kind, 0, nil))
	}
	for ok := seek(0, waypost.KindDomain); ok; {
		key := it.Key()
		if len(key) < recordKeyHeader {
			return fmt.Errorf("read domains, ranges and salts: a key of %d bytes", len(key))
		}
		slot, kind := binary.BigEndian.Uint16(key[1:]), waypost.Kind(key[3])
		switch {
		case kind < waypost.KindDomain:
			ok = seek(slot, waypost.KindDomain)
		case kind == waypost.KindLease:
			ok = seek(slot, waypost.KindSalt)
		case kind > waypost.KindSalt && slot >= waypost.Slots-1:
			ok = false
		case kind > waypost.KindSalt:
			ok = seek(slot+1, waypost.KindDomain)
		default:
			value, err := it.ValueAndErr()
			if err != nil {
				return fmt.Errorf("read domains, ranges and salts: %w", err)
			}
			var r waypost.Record
			record, err := appendRecord(nil, key, value)
			if err == nil {
				err = replication.DecodeRecord(record, &r)
			}
			if err != nil {
				return fmt.Errorf("read domains, ranges and salts: %w", err)
			}
			st.note(&r)
			ok = it.Next()
		}
	}
	st.publish()
	return nil
}

// note takes a record into the maps that readers ask besides the links.
func (st *store) note(r *waypost.Record) {
	switch r.Kind {
	case waypost.KindDomain:
		st.noteDomain(r)
	case waypost.KindSalt:
		st.noteSalt(r)
	case waypost.KindLink, waypost.KindRange, waypost.KindLease: // stay where they are
	}
}

// publish lets readers see what was noted.
func (st *store) publish() {
	st.publishDomains()
	st.publishSalts()
}
