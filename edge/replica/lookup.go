package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/edge/lookup"
	"waypost/replication"
)

// The table of a store is written only by who holds DB.mu, or fills the store in a
// restore. Whenever neither is at work it says of each link what Pebble says, or
// nothing.

// newTable makes an empty table, and nil when there is to be none, or no memory left
// for one. Leave is what it leaves of the budget.
func (db *DB) newTable(leave int64) *lookup.Table {
	if db.budget == nil {
		return nil
	}
	t, err := lookup.New(lookup.Config{Budget: db.budget, Leave: leave})
	if err != nil {
		db.cfg.Logger.Debug("no lookup table for now", "error", err)
		return nil
	}
	return t
}

// tell gives a link's record as Pebble holds it to one of the table's methods. One
// that must not be served, or cannot be read, becomes a mark that Pebble is to be
// asked, which has the error.
func tell[T any](value []byte, key linkName, err error, buf *[]byte, method func(*waypost.Record, []byte) T) T {
	var r waypost.Record
	if err == nil {
		*buf, err = replication.Expand((*buf)[:0], value, waypost.KindLink, key.domain, key.name)
	}
	if err == nil {
		if err = replication.DecodeRecord(*buf, &r); err == nil && !key.is(&r) {
			err = errMislaid
		}
	}
	if err != nil {
		return method(&waypost.Record{Domain: key.domain, Name: key.name}, nil) // of no kind that the table knows
	}
	return method(&r, replication.Extensions(*buf))
}

// linkName is what a key in Pebble says of a link.
type linkName struct {
	domain waypost.DomainID
	name   []byte
}

func (k linkName) is(r *waypost.Record) bool {
	return r.Kind == waypost.KindLink && r.Domain == k.domain && bytes.Equal(r.Name, k.name)
}

// parseLinkKey reads the key of a link's record, and is false for all other keys.
func parseLinkKey(key []byte) (linkName, bool) {
	kind, domain, name, ok := parseRecordKey(key)
	return linkName{domain, name}, ok && kind == waypost.KindLink && len(name) > 0
}

// wakeFill says that the live store's table may need more.
func (db *DB) wakeFill() {
	select {
	case db.unfilled <- struct{}{}:
	default:
	}
}

// fillLoop keeps the live store's table as full as it can be.
func (db *DB) fillLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-db.unfilled:
			if err := db.fill(ctx); err != nil && ctx.Err() == nil {
				db.cfg.Logger.Error("the lookup table cannot be filled: links are read from disk", "error", err)
			}
		case <-db.wanted.wake:
			db.promote(ctx)
		}
	}
}

// fill loads the live store into its table, or, when that is too much, makes a
// filter of all keys.
func (db *DB) fill(ctx context.Context) error {
	defer func() {
		db.sizeCache()
		trimMemory()
	}()
	db.mu.Lock()
	st, t := db.fillable()
	if t == nil {
		db.mu.Unlock()
		return nil
	}
	records, start, loading := int(st.applied.Load().records), time.Now(), !st.loaded
	if loading {
		t.Resume(0)
		t.Reserve(records)
	}
	db.mu.Unlock()

	if loading {
		db.sizeCache() // before it is filled with what is read once
		var buf []byte
		done, err := db.walk(ctx, st, func(it *pebble.Iterator, key linkName) bool {
			value, err := it.ValueAndErr()
			return tell(value, key, err, &buf, t.Load)
		}, func() { st.loaded = true; t.Finish() })
		if !done || err != nil {
			return err
		}
		if t.IsComplete() {
			db.cfg.Logger.Info("the lookup table holds all links", "links", t.Stats().Entries, "bytes", t.Stats().Bytes,
				"seconds", time.Since(start).Seconds())
		}
	}

	for started := false; !started; {
		db.mu.Lock()
		needed := st == db.live.Load() && t.NeedsFilter()
		started = needed && t.StartFilter(int(st.applied.Load().records))
		db.mu.Unlock()
		if !needed {
			return nil
		}
		if !started {
			select { // readers have not left what makes way for it
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	_, err := db.walk(ctx, st, func(_ *pebble.Iterator, key linkName) bool {
		t.Note(key.domain, key.name)
		return true
	}, t.FilterReady)
	db.cfg.Logger.Warn("the lookup table holds a part of the links: the others are read from disk",
		"links", t.Stats().Entries, "of", records, "bytes", t.Stats().Bytes)
	return err
}

// fillable gives the live store and its table when there is something to do about
// it. The caller holds db.mu.
func (db *DB) fillable() (*store, *lookup.Table) {
	st := db.live.Load()
	if st == nil || db.closed.Load() || db.detached || db.budget == nil || db.retiring.Load() > 0 {
		return nil, nil // the end of retiring wakes the loop again
	}
	t := st.table.Load()
	if t == nil {
		if t = db.newTable(0); t == nil {
			return nil, nil
		}
		st.loaded = false
		st.table.Store(t)
	}
	if st.loaded && !t.NeedsFilter() {
		return nil, nil
	}
	return st, t
}

const (
	walkRecords = 1024
	walkTime    = time.Millisecond
)

// walk visits all links of the live store, a few at a time with db.mu held, so that
// what visit is told is what Pebble holds at that moment, and changes wait for no
// more than a few. It ends when visit says so or all was visited, with atEnd, db.mu
// still held; it is false when the store is not the live one any more.
func (db *DB) walk(ctx context.Context, st *store, visit func(*pebble.Iterator, linkName) bool, atEnd func()) (bool, error) {
	next := []byte{prefixRecord}
	var pace pacer
	for more := true; more; pace.pause() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		live, err := func() (bool, error) {
			db.mu.Lock()
			defer db.mu.Unlock()
			if st != db.live.Load() || st.pdb == nil || db.closed.Load() || db.detached {
				return false, nil
			}
			var err error
			if next, more, err = st.visitSome(ctx, next, visit); err == nil && !more {
				atEnd()
			}
			return true, err
		}()
		if err != nil || !live {
			return false, err
		}
	}
	return true, nil
}

// visitSome visits links from a key on, and gives the key to go on from; more is
// false at the end.
func (st *store) visitSome(ctx context.Context, from []byte, visit func(*pebble.Iterator, linkName) bool) (next []byte, more bool, err error) {
	it, err := st.pdb.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: []byte{prefixRecord + 1}})
	if err != nil {
		return nil, false, fmt.Errorf("read the links: %w", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("read the links: %w", closeErr)
		}
	}()
	start, ok := time.Now(), it.First()
	for n := 0; ok; n++ {
		if n == walkRecords || n%64 == 63 && time.Since(start) > walkTime {
			return bytes.Clone(it.Key()), true, nil
		}
		if key, link := parseLinkKey(it.Key()); link && !visit(it, key) {
			return nil, false, nil
		}
		ok = it.Next()
	}
	return nil, false, nil
}

// promote takes links into the table that were asked for and had to be read from
// Pebble.
func (db *DB) promote(ctx context.Context) {
	for ctx.Err() == nil && db.wanted.take(func(k linkName) {
		db.mu.Lock()
		defer db.mu.Unlock()
		st := db.live.Load()
		if st == nil || st.pdb == nil || db.closed.Load() || db.detached {
			return
		}
		t := st.table.Load()
		if t == nil {
			return
		}
		key := appendRecordKey(nil, waypost.Slot(waypost.KindLink, k.domain, k.name), waypost.KindLink, k.domain, k.name)
		value, closer, err := st.pdb.Get(key)
		if err != nil {
			return // it is gone, or whoever asks next is told what is wrong
		}
		var buf []byte
		tell(value, k, nil, &buf, func(r *waypost.Record, ext []byte) struct{} { t.Promote(r, ext); return struct{}{} })
		if err := closer.Close(); err != nil {
			db.cfg.Logger.Warn("reading a link for the lookup table", "error", err)
		}
	}) {
	}
}

// publish brings the changes of a writer to the table of its store, once Pebble
// shows them.
func (w *writer) publish() {
	t := w.st.table.Load()
	if t == nil {
		return
	}
	for i := range w.links {
		c := &w.links[i]
		switch {
		case c.record.State == waypost.Purged:
			t.Remove(c.record.Domain, c.record.Name)
		case c.poison:
			t.Put(&waypost.Record{Domain: c.record.Domain, Name: c.record.Name}, nil)
		default:
			t.Put(&c.record, c.extensions)
		}
	}
}

// linkChange is a link's record that a writer has taken. It refers to the batch.
type linkChange struct {
	record     waypost.Record
	extensions []byte
	poison     bool
}

// errIncomplete says why a replica cannot do without its store.
var errIncomplete = errors.New("the lookup table does not hold all links")
