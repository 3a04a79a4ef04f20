package replica

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// Shrink makes the stores that are opened from now on small and impatient.
func (db *DB) Shrink() { db.memTableSize, db.errorPause, db.saveBytes = 512<<10, time.Millisecond, 0 }

// Hesitate has restores make nothing durable because time has passed.
func (db *DB) Hesitate() { db.saveAfter = time.Hour }

// SetSpace tells the replica how much room its disk has.
func (db *DB) SetSpace(free, total *atomic.Int64) {
	db.space.look = func(string) (int64, int64, error) { return free.Load(), total.Load(), nil }
}

// LiveStore names the directory of the live store.
func (db *DB) LiveStore() string { return db.live.Load().name }

// Flush writes what is in memory into tables.
func (db *DB) Flush() error { return db.live.Load().pdb.Flush() }

// Overwrite writes raw bytes under a link's key, as a failing disk might.
func (db *DB) Overwrite(code string, raw []byte) error {
	st := db.live.Load()
	return st.pdb.Set(linkKey(code), raw, nil)
}

// Remove takes a link's record away behind the replica's back, and Add brings one that was
// never applied.
func (db *DB) Remove(code string) error { return db.live.Load().pdb.Delete(linkKey(code), nil) }

func (db *DB) Add(raw []byte) error {
	var r waypost.Record
	if err := replication.DecodeRecord(raw, &r); err != nil {
		return err
	}
	st := db.live.Load()
	return st.pdb.Set(linkKey(string(r.Name)), appendStored(nil, st.applied.Load().format, raw), nil)
}

// StoreFormat is the format that this version writes.
const StoreFormat = storeFormat

func linkKey(code string) []byte {
	slot := waypost.Slot(waypost.KindLink, waypost.DefaultDomain, []byte(code))
	return appendRecordKey(nil, slot, waypost.KindLink, waypost.DefaultDomain, []byte(code))
}

// Get is Pebble's own reading of a link's record, and nothing else.
func (db *DB) Get(key []byte) error {
	_, closer, err := db.live.Load().pdb.Get(key)
	if err != nil {
		return err
	}
	return closer.Close()
}

// LinkKey is the key of a link in the default domain.
func LinkKey(code string) []byte { return linkKey(code) }

// HoldLive gives a function that pins the store that is live now, as a reader does
// that has just seen it, and says whether that was still possible.
func (db *DB) HoldLive() func() bool {
	st := db.live.Load()
	return func() bool { return db.hold(st, 7) }
}

// PutRaw gives the live store's table a record as it would be applied.
func (db *DB) PutRaw(raw []byte) error {
	var r waypost.Record
	if err := replication.DecodeRecord(raw, &r); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	w := writer{st: db.live.Load(), scratch: &scratch{links: []linkChange{{r, replication.Extensions(raw), false}}}}
	w.publish()
	return nil
}

// TableExtensions gives the extensions that the table has of a link.
func (db *DB) TableExtensions(code string) string {
	_, extensions, _, _ := db.table().Find(waypost.DefaultDomain, []byte(code), nil)
	return string(extensions)
}

// DamageTable flips a bit of what the table holds of a link.
func (db *DB) DamageTable(code string) { db.table().Damage(waypost.DefaultDomain, []byte(code)) }

// WriteFormat makes the stores of restores from now on of an older format; 0: the
// present one.
func (db *DB) WriteFormat(format uint32) { db.format = format }

// Stored gives CURRENT, and all values of records as they are on disk.
func (db *DB) Stored() (current string, values [][]byte) {
	f, err := db.fs.Open(db.path(currentName))
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		panic(err)
	}
	it, err := db.live.Load().pdb.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixRecord}, UpperBound: []byte{prefixRecord + 1}})
	if err != nil {
		panic(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		values = append(values, bytes.Clone(it.Value()))
	}
	if err := it.Close(); err != nil {
		panic(err)
	}
	return string(text), values
}

// Suspect says that a record is not what was written.
func (db *DB) Suspect(why error) { db.live.Load().health.rot(why) }

// VerifySlot adds up a slot at once.
func (db *DB) VerifySlot(ctx context.Context, slot uint16) error { return db.verifySlot(ctx, slot) }

// ForgetLog takes the log away, as if it had become too old.
func (db *DB) ForgetLog() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	st := db.live.Load()
	st.log = logIndex{}
	return st.pdb.DeleteRange(logStart, logEnd, nil)
}

// LogSize is how many batches the log holds, and their bytes.
func (db *DB) LogSize() (batches, size int) {
	it, err := db.live.Load().pdb.NewIter(&pebble.IterOptions{LowerBound: logStart, UpperBound: logEnd})
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

// HoldWriters keeps all who write the live store or its lookup table waiting until the function that it gives is called.
func (db *DB) HoldWriters() (release func()) {
	db.mu.Lock()
	return db.mu.Unlock
}
