package replica

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/edge/lookup"
	"waypost/replication"
)

// errMislaid says that a record lies under another record's key.
var errMislaid = errors.New("the record on disk is another link's")

// Link finds the record of a code, in the lookup table or, when that cannot tell, in
// the store. It copies what it finds behind buf, and the record refers to that copy;
// buf comes back grown, to be used again. It does not allocate once buf is large
// enough. Revision and Stamp are those of the record only when the store was read. An
// error says that the store could not be read, or that what was read must not be
// served; it says nothing about the link.
func (db *DB) Link(domain waypost.DomainID, code, buf []byte) (rec waypost.Record, grown []byte, found bool, err error) {
	if len(code) == 0 || len(code) > waypost.MaxName {
		return rec, buf, false, nil
	}
	for {
		table := db.table()
		if table != nil {
			rec, extensions, grown, answer := table.Find(domain, code, buf)
			switch answer {
			case lookup.Found:
				if len(extensions) > 0 {
					if err := replication.DecodeExtensions(extensions, &rec); err != nil {
						return waypost.Record{}, grown, false, fmt.Errorf("read a link: %w", err)
					}
				}
				return rec, grown, true, nil
			case lookup.Absent:
				return rec, grown, false, nil
			default:
				buf = grown[:len(buf)]
			}
		}
		slot := waypost.Slot(waypost.KindLink, domain, code)
		st := db.pin(slot)
		switch {
		case st == nil && db.closed.Load():
			return rec, buf, false, errClosed
		case st == nil:
			return rec, buf, false, errEmpty
		case st.pdb != nil:
			if rec, grown, found, err = db.stored(st, slot, domain, code, buf); found && table != nil && !table.IsComplete() {
				db.wanted.add(domain, code)
			}
			return rec, grown, found, err
		}
		st.unpin(slot)
		if st.table.Load() == table { // it was asked, and there is nothing else
			db.metrics.unreadable.Inc()
			return rec, buf, false, errDetached
		}
	}
}

// stored finds the record of a code in a store that is pinned, and unpins it. (In the
// loop above, deferring that would allocate.)
func (db *DB) stored(st *store, slot uint16, domain waypost.DomainID, code, buf []byte) (rec waypost.Record, grown []byte, found bool, err error) {
	defer st.unpin(slot)
	// The key goes into buf as well: on the stack it would escape.
	grown = appendRecordKey(buf, slot, waypost.KindLink, domain, code)
	raw, closer, err := st.pdb.Get(grown[len(buf):])
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return rec, grown, false, nil
		}
		return rec, grown, false, db.unreadable(st, err, pebble.IsCorruptionError(err))
	}
	at := len(grown)
	grown, err = replication.Expand(grown, raw, waypost.KindLink, domain, code)
	if closeErr := closer.Close(); err == nil && closeErr != nil {
		return rec, grown, false, db.unreadable(st, closeErr, false)
	}
	if err == nil {
		err = replication.DecodeRecord(grown[at:], &rec)
	}
	if err != nil {
		return waypost.Record{}, grown, false, db.unreadable(st, err, errors.Is(err, replication.ErrRecord))
	}
	if rec.Kind != waypost.KindLink || rec.Domain != domain || !bytes.Equal(rec.Name, code) {
		return waypost.Record{}, grown, false, db.unreadable(st, errMislaid, true)
	}
	return rec, grown, true, nil
}

// table gives the lookup table of the live store, nil when there is none.
func (db *DB) table() *lookup.Table {
	if st := db.live.Load(); st != nil {
		return st.table.Load()
	}
	return nil
}

// errEmpty says that nobody knows yet which links there are.
var errEmpty = waypost.Errorf(waypost.EUnavailable, "the replica has not taken its first snapshot yet")

// unreadable counts a record that cannot be served. When the disk is to blame, the
// store is degraded, and the follower brings a fresh one.
func (db *DB) unreadable(st *store, err error, corrupt bool) error {
	db.metrics.unreadable.Inc()
	if corrupt {
		st.health.fail(err, true)
	}
	if db.noise.allow() {
		db.cfg.Logger.Error("a link cannot be read", "error", err)
	}
	return fmt.Errorf("read a link: %w", err)
}
