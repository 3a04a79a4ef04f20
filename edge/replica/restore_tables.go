package replica

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"waypost"
	"waypost/replication"
)

// gathered is records of a snapshot that are not in a table yet.
type gathered struct {
	items []gatheredRecord
	chunk []byte // in which the records lie that came last, and some before them that are another's now
	bytes int    // of all records
}

type gatheredRecord struct {
	order  uint64 // the first bytes of its key, but for the prefix
	then   uint64 // those that follow
	raw    []byte
	poison bool // it must not be served
}

const (
	gatherChunk = 1 << 20
	// gatherLimit bounds what is held in memory until it becomes a table, in bytes: there
	// may be three times as much, as one table is written and one waits.
	gatherLimit = 64 << 20
)

// orderOf is the part of a record's key that fits a word: slot, kind, domain, and a byte
// of the name.
func orderOf(r *waypost.Record) uint64 {
	slot := waypost.Slot(r.Kind, r.Domain, r.Name)
	return uint64(slot)<<48 | uint64(r.Kind)<<40 | uint64(r.Domain)<<8 | uint64(r.Name[0])
}

// thenOf is what follows on that: eight bytes of the name, with zeroes behind.
func thenOf(r *waypost.Record) uint64 {
	var b [8]byte
	copy(b[:], r.Name[1:])
	return binary.BigEndian.Uint64(b[:])
}

// add takes a copy of a record.
func (g *gathered) add(r *waypost.Record, raw []byte, poison bool) {
	if cap(g.chunk)-len(g.chunk) < len(raw) {
		g.chunk = make([]byte, 0, max(gatherChunk, len(raw)))
	}
	at := len(g.chunk)
	g.chunk = append(g.chunk, raw...)
	g.items = append(g.items, gatheredRecord{orderOf(r), thenOf(r), g.chunk[at:len(g.chunk):len(g.chunk)], poison})
	g.bytes += len(raw)
}

// take takes off all records. What room is left in the chunk is for those that come next.
func (g *gathered) take() gathered {
	taken := *g
	*g = gathered{items: make([]gatheredRecord, 0, len(taken.items)), chunk: taken.chunk[len(taken.chunk):]}
	return taken
}

// join takes all records of another off it.
func (g *gathered) join(other *gathered) {
	g.items = append(g.items, other.items...)
	g.bytes += other.bytes
	clear(other.items)
	other.items, other.chunk, other.bytes = other.items[:0], other.chunk[len(other.chunk):], 0
}

// forget takes off the records of the slots before one.
func (g *gathered) forget(before int) {
	g.items = slices.DeleteFunc(g.items, func(item gatheredRecord) bool { return int(item.order>>48) < before })
	g.bytes = 0
	for i := range g.items {
		g.bytes += len(g.items[i].raw)
	}
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

// sorted gives the records in the order of their keys, each key once: the newest of it.
func (g *gathered) sorted() []gatheredRecord {
	items := g.items
	if !slices.IsSortedFunc(items, compareGathered) { // a replica gives them so
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

// madeTable is a table of a restore that is durable.
type madeTable struct {
	Number int    `json:"number"` // of its file
	First  int    `json:"first"`  // slots that it has records of
	Last   int    `json:"last"`
	Layer  int    `json:"layer"` // tables of one do not overlap
	Bytes  int64  `json:"bytes"`
	Tally  totals `json:"tally"`
}

// totals is what records add up to.
type totals struct {
	Digest  uint64 `json:"digest"`
	Records uint64 `json:"records"`
}

// writeTable makes a table of records in the order of their keys, durably but for its
// directory's entry.
func (r *restore) writeTable(ctx context.Context, number int, items []gatheredRecord) (made madeTable, err error) {
	name := r.tablePath(number)
	f, err := r.db.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return made, fmt.Errorf("make a table: %w", err)
	}
	f = vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: 512 << 10}) // the disk begins at once
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), r.options)
	defer func() {
		if closeErr := w.Close(); closeErr != nil && err == nil {
			err = fmt.Errorf("make a table: %w", closeErr)
		}
		if err == nil {
			var info vfs.FileInfo
			if info, err = r.db.fs.Stat(name); err == nil {
				made.Bytes = info.Size()
			}
		}
	}()
	var key, value []byte
	var sum totals
	var rec waypost.Record
	var pace pacer
	for i := range items {
		pace.step()
		if i%4096 == 0 && ctx.Err() != nil {
			return made, ctx.Err()
		}
		raw := items[i].raw
		replication.RereadRecord(raw, &rec)
		key = appendRecordKey(key[:0], uint16(items[i].order>>48), rec.Kind, rec.Domain, rec.Name)
		value = appendStored(value[:0], r.format, raw)
		if err := w.Set(key, value); err != nil {
			return made, fmt.Errorf("write a table: %w", err)
		}
		sum.Digest ^= rec.Stamp
		sum.Records++
	}
	made = madeTable{Number: number, First: int(items[0].order >> 48), Last: int(items[len(items)-1].order >> 48), Tally: sum}
	return made, nil
}

// tableBytes is what a link takes in the lookup table, about.
const tableBytes = 120

// reserve makes room for so many links in the lookup table at once, if it will hold them all:
// growing it as they come would take as long as putting them in.
func (r *restore) reserve(records uint64) {
	if r.table != nil && records > 0 && records < uint64(r.db.budget.Limit())/tableBytes/2 {
		r.table.Reserve(int(records))
	}
}

// publishAll gives records of a snapshot to those who are asked besides the store; not all when ctx ends, and with it the restore.
func (r *restore) publishAll(ctx context.Context, items []gatheredRecord) {
	var pace pacer
	var rec waypost.Record
	for i := range items {
		pace.step()
		if i%4096 == 0 && ctx.Err() != nil {
			return
		}
		extensions := replication.RereadRecord(items[i].raw, &rec)
		r.publish(&rec, extensions, items[i].poison)
	}
}

func (r *restore) publish(rec *waypost.Record, extensions []byte, poison bool) {
	if poison {
		r.poison++
	}
	switch {
	case rec.Kind != waypost.KindLink:
		note := *rec
		note.Name, note.Payload = bytes.Clone(rec.Name), bytes.Clone(rec.Payload)
		r.notes = append(r.notes, note)
	case r.table == nil:
	case poison:
		r.table.Put(&waypost.Record{Domain: rec.Domain, Name: rec.Name}, nil)
	default:
		r.table.Put(rec, extensions)
	}
}

// tableOptions are those of the tables that a restore makes, which go to the last level. They
// are packed with less effort than what compactions write there, which makes them larger by a
// fiftieth and saves a third of the time.
func (db *DB) tableOptions() sstable.WriterOptions {
	opts := db.storeOptions()
	opts.EnsureDefaults()
	w := opts.MakeWriterOptions(len(opts.Levels)-1, opts.FormatMajorVersion.MaxTableFormat())
	quick := *w.Compression
	quick.Name = "Snapshot"
	quick.DataBlocks, quick.ValueBlocks = block.BalancedCompression.DataBlocks, block.BalancedCompression.ValueBlocks
	w.Compression = &quick
	return w
}
