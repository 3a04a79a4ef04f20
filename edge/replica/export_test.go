package replica

import (
	"time"

	"waypost"
)

// Shrink makes the stores that are opened from now on small and impatient.
func (db *DB) Shrink() { db.memTableSize, db.errorPause = 512<<10, time.Millisecond }

// Sync makes what is applied durable now.
func (db *DB) Sync() error { return db.sync() }

// LiveStore names the directory of the live store.
func (db *DB) LiveStore() string { return db.live.Load().name }

// Flush writes what is in memory into tables.
func (db *DB) Flush() error { return db.live.Load().pdb.Flush() }

// Overwrite writes raw bytes under a link's key, as a failing disk might.
func (db *DB) Overwrite(code string, raw []byte) error {
	st := db.live.Load()
	return st.pdb.Set(linkKey(code), raw, nil)
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
