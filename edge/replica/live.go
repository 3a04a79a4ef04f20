package replica

import (
	"fmt"

	"waypost/edge/lookup"
)

// end closes a store that nobody reads any more, and its table.
func (db *DB) end(st *store) error {
	if t := st.table.Swap(nil); t != nil {
		db.endTable(t, db.count(t, [4]uint64{}))
	}
	return st.closePebble()
}

// count keeps what a table has answered for the metrics, when it is not the live
// store's any more. What was counted before is left out.
func (db *DB) count(t *lookup.Table, before [4]uint64) [4]uint64 {
	now := answers(t)
	for i, n := range now {
		db.ended[i].Add(n - before[i])
	}
	return now
}

// endTable closes a table of which some answers were counted.
func (db *DB) endTable(t *lookup.Table, counted [4]uint64) {
	t.Close()
	db.count(t, counted)
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

// pin gives the live store, nil when there is none, and keeps it from being
// closed until unpin, with the same slot, is called. It takes no lock.
func (db *DB) pin(slot uint16) *store {
	for {
		st := db.live.Load()
		if st == nil || db.hold(st, slot) {
			return st
		}
	}
}

// hold pins a store that was the live one, unless it is so no more: then it may be
// closing, and must not be looked at.
func (db *DB) hold(st *store, slot uint16) bool {
	st.pins[slot%stripes].n.Add(1)
	if db.live.Load() == st {
		return true
	}
	st.unpin(slot)
	return false
}

// retire closes a store that is not live any more, once its readers have left, and
// removes it. The caller holds db.mu.
func (db *DB) retire(st *store) {
	db.retiring.Add(1)
	var counted [4]uint64
	table := st.table.Load()
	if table != nil {
		counted = db.count(table, counted)
	}
	db.retirements.Go(func() {
		defer db.wakeFill() // with the memory that the old table had
		defer db.retiring.Add(-1)
		st.awaitReaders()
		if table != nil {
			st.table.Store(nil)
			db.endTable(table, counted)
		}
		if err := st.closePebble(); err != nil {
			db.cfg.Logger.Warn("closing the old store", "error", err)
		}
		if f := st.health.failed(); f != nil && f.corrupt {
			if err := db.quarantine(st.name, f.err); err != nil {
				db.cfg.Logger.Error("the old store cannot be set aside", "error", err)
			}
			return
		}
		db.cfg.Points.Hit("remove store: begun")
		if err := db.fs.RemoveAll(db.path(st.name)); err != nil {
			db.cfg.Logger.Warn("the old store is removed at the next start", "error", err)
		}
		db.cfg.Points.Hit("remove store: done")
	})
}
