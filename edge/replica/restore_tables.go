package replica

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"waypost"
	"waypost/edge/lookup"
	"waypost/internal/pacer"
	"waypost/replication"
)

// tableBuilder makes sorted tables of the records of a snapshot, in the background, and
// puts their links into a lookup table.
type tableBuilder struct {
	db      *DB
	dir     string // path
	options sstable.WriterOptions
	alone   bool // the replica was empty at the beginning

	// Owned by the goroutine of the restore.
	pending gathered // of the range of slots that is being taken
	ready   gathered // of whole ranges that are in no table yet
	savedAt time.Time
	taking  *pacer.Pacer // of the work of that goroutine, from one frame to the next

	working    chan error      // result of the background work; nil: there is none
	background context.Context //nolint:containedctx // ends the background work
	stop       context.CancelFunc

	// Owned by the background work while there is some, else by the goroutine of the
	// restore.
	made   []madeTable
	next   int // number of the last table
	notes  []waypost.Record
	poison int
	lookup *lookup.Table // nil: there is none
}

// madeTable is a durable table of a restore. No two overlap.
type madeTable struct {
	Number int    `json:"number"` // of its file
	Bytes  int64  `json:"bytes"`
	Tally  totals `json:"tally"`
}

// totals adds up records.
type totals struct {
	Digest  uint64 `json:"digest"`
	Records uint64 `json:"records"`
}

func tableName(number int) string { return fmt.Sprintf("%06d.sst", number) }

// beginTables readies a builder that has the tables of an earlier restore, or none.
func (b *tableBuilder) beginTables(db *DB, dir string) {
	b.db, b.dir, b.options, b.savedAt = db, dir, db.storage.tableOptions(), time.Now()
	b.background, b.stop = context.WithCancel(context.Background())
	b.alone = db.serving.empty()
	b.taking = b.pacer()
}

// empty reports whether the replica serves no records.
func (s *serving) empty() bool {
	st := s.live.Load()
	return st == nil || st.applied.Load().records == 0
}

// pacer returns the pacer of one piece of work, nil if the replica was empty when the
// restore began, because then no redirect waits for the processor. While it serves, a
// snapshot may take its time.
func (b *tableBuilder) pacer() *pacer.Pacer {
	if b.alone {
		return nil
	}
	return new(pacer.Pacer)
}

// path returns the path of a table.
func (b *tableBuilder) path(number int) string {
	return b.db.cfg.FS.PathJoin(b.dir, tableName(number))
}

// lookupBytes is the approximate size of a link in the lookup table.
const lookupBytes = 120

// reserve makes room in the lookup table for that many links at once, if it will hold
// them all: growing it step by step takes as long as filling it.
func (b *tableBuilder) reserve(records uint64) {
	if b.lookup != nil && records > 0 && records < uint64(b.db.filler.budget.Limit())/lookupBytes/2 {
		b.lookup.Reserve(int(records))
	}
}

// gather adds records to the range that is being taken.
func (b *tableBuilder) gather(records [][]byte) error {
	var rec waypost.Record
	for _, raw := range records {
		b.taking.Step()
		err := replication.DecodeRecord(raw, &rec)
		if err != nil && !errors.Is(err, replication.ErrContent) {
			return err
		}
		if rec.State != waypost.Purged {
			b.pending.addRecord(&rec, raw, err != nil)
			if err == nil && rec.Kind.IsLink() {
				b.db.cfg.Arrived(&rec)
			}
		}
	}
	return nil
}

// takeDue ends the range, and returns all records for a table when it is time to make
// one.
func (b *tableBuilder) takeDue() (g gathered, due bool) {
	b.ready.join(&b.pending)
	if b.ready.bytes < b.db.saveBytes && time.Since(b.savedAt) < saveAfter {
		return g, false
	}
	b.savedAt = time.Now()
	return b.ready.takeRecords(), true
}

// takeAll returns all records.
func (b *tableBuilder) takeAll() gathered {
	b.ready.join(&b.pending)
	return b.ready.takeRecords()
}

// later waits for the background work before, returns its error, and otherwise starts the
// next work. On few processors that serve redirects it does the work itself, because two
// pieces at a time would take twice their share.
func (b *tableBuilder) later(ctx context.Context, do func(context.Context, *pacer.Pacer) error) error {
	if err := b.wait(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	b.working = done
	if !b.alone && workers() == 1 {
		done <- do(b.background, b.taking)
		return nil
	}
	go func() { done <- do(b.background, b.pacer()) }()
	return nil
}

// wait waits for the background work. After an error no further work starts.
func (b *tableBuilder) wait(ctx context.Context) error {
	if b.working == nil {
		return nil
	}
	select {
	case err := <-b.working:
		if err != nil {
			b.working <- err // for the next caller
			return fmt.Errorf("restore: %w", err)
		}
		b.working = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("restore: %w", ctx.Err())
	}
}

// finish waits for the background work of a restore that ends.
func (b *tableBuilder) finish() {
	if b.working == nil {
		return
	}
	if err := <-b.working; err != nil { // returned already, or not important any more
		b.db.cfg.Logger.Debug("ended a restore", "error", err)
	}
}

// addTable makes a table of some records.
func (b *tableBuilder) addTable(ctx context.Context, pace *pacer.Pacer, g gathered) error {
	items := g.sorted()
	if len(items) == 0 {
		return nil
	}
	if err := b.db.disk.low(); err != nil {
		return err
	}
	b.next++
	var publishing sync.WaitGroup
	if b.db.serving.live.Load() == nil || workers() > 1 {
		publishing.Go(func() { b.publish(ctx, b.pacer(), items) })
	} else {
		b.publish(ctx, pace, items)
	}
	t, err := b.write(ctx, pace, b.next, items)
	pace.Pause() // the file was synced
	publishing.Wait()
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	b.made = append(b.made, t)
	b.db.cfg.Points.Hit("make table: written")
	b.db.metrics.records.Add(float64(len(items)))
	b.db.metrics.written.Add(float64(t.Bytes))
	return nil
}

// write writes a table of records in the order of their keys. The file is durable, the
// entry in its directory is not.
func (b *tableBuilder) write(ctx context.Context, pace *pacer.Pacer, number int, items []gatheredRecord) (made madeTable, err error) {
	fs, name := b.db.cfg.FS, b.path(number)
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return made, fmt.Errorf("make a table: %w", err)
	}
	f = vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: 512 << 10}) // the disk begins at once
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), b.options)
	defer func() {
		if closeErr := w.Close(); closeErr != nil && err == nil {
			err = fmt.Errorf("make a table: %w", closeErr)
		}
		if err == nil {
			var info vfs.FileInfo
			if info, err = fs.Stat(name); err == nil {
				made.Bytes = info.Size()
			}
		}
	}()
	var key []byte
	var sum totals
	var rec waypost.Record
	for i := range items {
		pace.Step()
		if i%4096 == 0 && ctx.Err() != nil {
			return made, ctx.Err()
		}
		raw := items[i].raw
		replication.RereadRecord(raw, &rec)
		key = appendRecordKey(key[:0], uint16(items[i].order>>48), rec.Kind, rec.Domain, rec.Name)
		if err := w.Set(key, raw); err != nil {
			return made, fmt.Errorf("write a table: %w", err)
		}
		sum.Digest ^= rec.Stamp
		sum.Records++
	}
	return madeTable{Number: number, Tally: sum}, nil
}

// publish puts records into the lookup table and the notes. It ends early when ctx ends,
// and the restore with it.
func (b *tableBuilder) publish(ctx context.Context, pace *pacer.Pacer, items []gatheredRecord) {
	var rec waypost.Record
	for i := range items {
		pace.Step()
		if i%4096 == 0 && ctx.Err() != nil {
			return
		}
		extensions, poison := replication.RereadRecord(items[i].raw, &rec), items[i].poison
		if poison {
			b.poison++
		}
		if rec.Kind != waypost.KindLink {
			b.notes = append(b.notes, cloneNote(&rec))
		}
		switch {
		case !rec.Kind.IsLink():
		case b.lookup == nil:
		case poison:
			b.lookup.Put(&waypost.Record{Domain: rec.Domain, Name: rec.Name}, nil)
		default:
			b.lookup.Put(&rec, extensions)
		}
	}
}

// gathered collects records of a snapshot that are not in a table yet.
type gathered struct {
	items []gatheredRecord
	chunk []byte // holds the newest records, and perhaps some before them that were taken
	bytes int    // of all records
}

type gatheredRecord struct {
	order  uint64 // the first bytes of its key after the prefix
	then   uint64 // the next bytes
	raw    []byte
	poison bool // it must not be served
}

const gatherChunk = 1 << 20

// orderOf returns the part of a record's key that fits a word: slot, kind, domain, and a
// byte of the name.
func orderOf(r *waypost.Record) uint64 {
	slot := waypost.Slot(r.Kind, r.Domain, r.Name)
	return uint64(slot)<<48 | uint64(r.Kind)<<40 | uint64(r.Domain)<<8 | uint64(r.Name[0])
}

// thenOf returns the next eight bytes of the name, padded with zeroes.
func thenOf(r *waypost.Record) uint64 {
	var b [8]byte
	copy(b[:], r.Name[1:])
	return binary.BigEndian.Uint64(b[:])
}

// addRecord adds a copy of a record. Records lie in chunks, so that a restore makes
// little garbage.
func (g *gathered) addRecord(r *waypost.Record, raw []byte, poison bool) {
	if cap(g.chunk)-len(g.chunk) < len(raw) {
		g.chunk = make([]byte, 0, max(gatherChunk, len(raw)))
	}
	at := len(g.chunk)
	g.chunk = append(g.chunk, raw...)
	g.items = append(g.items, gatheredRecord{orderOf(r), thenOf(r), g.chunk[at:len(g.chunk):len(g.chunk)], poison})
	g.bytes += len(raw)
}

// takeRecords removes and returns all records. The room left in the chunk is for the next
// ones.
func (g *gathered) takeRecords() gathered {
	taken := *g
	*g = gathered{items: make([]gatheredRecord, 0, len(taken.items)), chunk: taken.chunk[len(taken.chunk):]}
	return taken
}

// join moves all records of another here.
func (g *gathered) join(other *gathered) {
	g.items = append(g.items, other.items...)
	g.bytes += other.bytes
	clear(other.items)
	other.items, other.chunk, other.bytes = other.items[:0], other.chunk[len(other.chunk):], 0
}

func compareGathered(a, b gatheredRecord) int {
	switch {
	case a.order != b.order:
		return cmp.Compare(a.order, b.order)
	case a.then != b.then:
		return cmp.Compare(a.then, b.then)
	}
	return bytes.Compare(replication.RecordName(a.raw), replication.RecordName(b.raw))
}

// sorted returns the records in the order of their keys. Of records with one key it
// returns the newest.
func (g *gathered) sorted() []gatheredRecord {
	items := g.items
	if !slices.IsSortedFunc(items, compareGathered) { // a replica sends them sorted
		slices.SortFunc(items, compareGathered)
	}
	n := 0
	for i := range items {
		if n > 0 && compareGathered(items[n-1], items[i]) == 0 {
			if !replication.RecordRevision(items[n-1].raw).Newer(replication.RecordRevision(items[i].raw)) {
				items[n-1] = items[i]
			}
			continue
		}
		items[n] = items[i]
		n++
	}
	return items[:n]
}

// workers bounds the goroutines that compute for a restore, and Pebble's compactions,
// while redirects are answered: half of the processors, and two at the most.
func workers() int { return min(2, max(1, runtime.NumCPU()/2)) }
