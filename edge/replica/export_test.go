package replica

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// StoreFormat is the format that this version writes.
const StoreFormat = storeFormat

// Shrink makes the stores that are opened from now on small and impatient.
func (db *DB) Shrink() {
	db.storage.memTableSize, db.storage.errorPause, db.saveBytes = 512<<10, time.Millisecond, 0
}

// SetSpace sets the room on the disk.
func (db *DB) SetSpace(free, total *atomic.Int64) {
	db.disk.look = func(string) (int64, int64, error) { return free.Load(), total.Load(), nil }
}

// LiveStore returns the name of the live store's directory.
func (db *DB) LiveStore() string { return db.serving.live.Load().name }

// Flush writes the memtables into tables.
func (db *DB) Flush() error { return db.serving.live.Load().pdb.Flush() }

// Compact writes everything into tables of the last level.
func (db *DB) Compact(ctx context.Context) error {
	return db.serving.live.Load().pdb.Compact(ctx, []byte{0}, []byte{0xff}, false)
}

// Overwrite writes raw bytes under a link's key, as a failing disk might.
func (db *DB) Overwrite(code string, raw []byte) error {
	return db.serving.live.Load().pdb.Set(LinkKey(code), raw, nil)
}

// Remove deletes a link's record from Pebble alone.
func (db *DB) Remove(code string) error { return db.serving.live.Load().pdb.Delete(LinkKey(code), nil) }

// Add writes a record to Pebble alone.
func (db *DB) Add(raw []byte) error {
	var r waypost.Record
	if err := replication.DecodeRecord(raw, &r); err != nil {
		return err
	}
	return db.serving.live.Load().pdb.Set(LinkKey(string(r.Name)), raw, nil)
}

// LinkKey returns the key of a link in the default domain.
func LinkKey(code string) []byte {
	slot := waypost.Slot(waypost.KindLink, waypost.DefaultDomain, []byte(code))
	return appendRecordKey(nil, slot, waypost.KindLink, waypost.DefaultDomain, []byte(code))
}

// Get reads a link's record from Pebble and drops it.
func (db *DB) Get(key []byte) error {
	_, closer, err := db.serving.live.Load().pdb.Get(key)
	if err != nil {
		return err
	}
	return closer.Close()
}

// HoldLive returns a function that pins the store that is live now, as a reader does that
// has just seen it, and reports whether that was still possible.
func (db *DB) HoldLive() func() bool {
	st := db.serving.live.Load()
	return func() bool { return db.serving.hold(st, 7) }
}

// PutRaw puts a record into the live store's table as it would be applied.
func (db *DB) PutRaw(raw []byte) error {
	var r waypost.Record
	if err := replication.DecodeRecord(raw, &r); err != nil {
		return err
	}
	db.serving.mu.Lock()
	defer db.serving.mu.Unlock()
	w := writer{st: db.serving.live.Load(), scratch: &scratch{links: []linkChange{{r, replication.Extensions(raw), false}}}}
	w.publish()
	return nil
}

// TableExtensions returns the extensions of a link in the table.
func (db *DB) TableExtensions(code string) string {
	extensions, _, _ := db.serving.table().Find(waypost.DefaultDomain, []byte(code), nil, new(waypost.Record))
	return string(extensions)
}

// DamageTable flips a bit of a link's record in the table.
func (db *DB) DamageTable(code string) {
	db.serving.table().Damage(waypost.DefaultDomain, []byte(code))
}

// Suspect reports a damaged record.
func (db *DB) Suspect(why error) { db.serving.live.Load().health.rot(why) }

// ForgetLog removes the log, as if it had become too old.
func (db *DB) ForgetLog() error {
	db.serving.mu.Lock()
	defer db.serving.mu.Unlock()
	st := db.serving.live.Load()
	st.guarded.log = logIndex{}
	return st.pdb.DeleteRange(logStart, logEnd, nil)
}

// LogSize returns the number of batches in the log, and their bytes.
func (db *DB) LogSize() (batches, size int) {
	it, err := db.serving.live.Load().pdb.NewIter(&pebble.IterOptions{LowerBound: logStart, UpperBound: logEnd})
	if err != nil {
		panic(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		batches, size = batches+1, size+len(it.Value())
	}
	if err := it.Close(); err != nil {
		panic(err)
	}
	return batches, size
}

// HoldWriters blocks all writers of the live store or its lookup table until release is
// called.
func (db *DB) HoldWriters() (release func()) {
	db.serving.mu.Lock()
	return db.serving.mu.Unlock
}

// Recompute reads every record and returns their digest and count, to be compared with
// the state.
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
