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
	"waypost/internal/pacer"
	"waypost/replication"
)

// filler keeps the lookup table of the live store as full as it can be.
//
// A table is written only under serving.mu, or by the restore that fills its store. While
// neither writes, the table says of each link what Pebble says, or nothing.
type filler struct {
	cfg      *Config
	serving  *serving
	cache    *pebble.Cache  // of Pebble's blocks
	budget   *lookup.Budget // nil: there is no lookup table
	unfilled chan struct{}  // gets a token when the table may need filling

	// Owned by the goroutine.
	enlargeCache func() // nil: the cache has its full size
}

// newTable makes an empty table, and returns nil when the replica has no tables, or no
// memory is left for one. The table leaves that many bytes of the budget.
func (f *filler) newTable(leave int64) *lookup.Table {
	if f.budget == nil {
		return nil
	}
	t, err := lookup.New(lookup.Config{Budget: f.budget, Leave: leave})
	if err != nil {
		f.cfg.Logger.Debug("cannot make a lookup table yet", "error", err)
		return nil
	}
	return t
}

// putStored passes a link's record as Pebble holds it to one of the table's methods. A
// record that must not be served, or cannot be read, becomes a mark, on which readers ask
// Pebble, which has the error.
func putStored[T any](value []byte, key linkName, err error, buf *[]byte, method func(*waypost.Record, []byte) T) T {
	var r waypost.Record
	if err == nil {
		*buf, err = replication.Expand((*buf)[:0], value, waypost.KindLink, key.domain, key.name)
	}
	if err == nil {
		if err = replication.DecodeRecord(*buf, &r); err == nil && !key.is(&r) {
			err = errMisplaced
		}
	}
	if err != nil {
		return method(&waypost.Record{Domain: key.domain, Name: key.name}, nil) // of no kind that the table knows
	}
	return method(&r, replication.Extensions(*buf))
}

// linkName is the part of a link's record that its key in Pebble holds.
type linkName struct {
	domain waypost.DomainID
	name   []byte
}

func (k linkName) is(r *waypost.Record) bool {
	return r.Kind == waypost.KindLink && r.Domain == k.domain && bytes.Equal(r.Name, k.name)
}

// parseLinkKey reads the key of a link's record, and returns false for all other keys.
func parseLinkKey(key []byte) (linkName, bool) {
	kind, domain, name, ok := parseRecordKey(key)
	return linkName{domain, name}, ok && kind == waypost.KindLink && len(name) > 0
}

// wake makes the filler check the live store's table.
func (f *filler) wake() {
	select {
	case f.unfilled <- struct{}{}:
	default:
	}
}

func (f *filler) fillLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.unfilled:
			if err := f.fill(ctx); err != nil && ctx.Err() == nil {
				f.cfg.Logger.Error("cannot fill the lookup table: links are read from disk", "error", err)
			}
		case <-f.serving.promotions.wake:
			f.promote(ctx)
		}
	}
}

// fill loads the live store into its table or, when that is too much, makes a filter of
// all keys.
func (f *filler) fill(ctx context.Context) error {
	defer func() {
		f.sizeCache()
		trimMemory()
	}()
	mu, live := &f.serving.mu, &f.serving.live
	mu.Lock()
	st, t := f.fillable()
	if t == nil {
		mu.Unlock()
		return nil
	}
	records, start, loading := int(st.applied.Load().records), time.Now(), !st.guarded.loaded
	if loading {
		t.Resume(0)
		t.Reserve(records)
	}
	mu.Unlock()

	if loading {
		f.sizeCache() // before it is filled with blocks that are read once
		var buf []byte
		done, err := f.walk(ctx, st, func(it *pebble.Iterator, key linkName) bool {
			value, err := it.ValueAndErr()
			return putStored(value, key, err, &buf, t.Load)
		}, func() { st.guarded.loaded = true; t.Finish() })
		if !done || err != nil {
			return err
		}
		if t.IsComplete() {
			f.cfg.Logger.Info("the lookup table holds all links", "links", t.Stats().Entries, "bytes", t.Stats().Bytes,
				"seconds", time.Since(start).Seconds())
		}
	}

	for started := false; !started; {
		mu.Lock()
		needed := st == live.Load() && t.NeedsFilter()
		started = needed && t.StartFilter(int(st.applied.Load().records))
		mu.Unlock()
		if !needed {
			return nil
		}
		if !started {
			select { // readers still use the memory that the filter needs
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	_, err := f.walk(ctx, st, func(_ *pebble.Iterator, key linkName) bool {
		t.Note(key.domain, key.name)
		return true
	}, t.FilterReady)
	f.cfg.Logger.Warn("the lookup table holds a part of the links: the others are read from disk",
		"links", t.Stats().Entries, "of", records, "bytes", t.Stats().Bytes)
	return err
}

// fillable returns the live store and its table when the table is not full. The caller
// holds serving.mu.
func (f *filler) fillable() (*store, *lookup.Table) {
	s := f.serving
	st := s.live.Load()
	if st == nil || s.closed.Load() || s.mu.detached || f.budget == nil || s.retiring.Load() > 0 {
		return nil, nil // when a store has been retired, the filler is woken again
	}
	t := st.table.Load()
	if t == nil {
		if t = f.newTable(0); t == nil {
			return nil, nil
		}
		st.guarded.loaded = false
		st.table.Store(t)
	}
	if st.guarded.loaded && !t.NeedsFilter() {
		return nil, nil
	}
	return st, t
}

const (
	walkRecords = 1024
	walkTime    = time.Millisecond
)

// walk visits all links of the live store. It holds serving.mu for a few links at a time,
// so that visit sees what Pebble holds at that moment, and changes wait for a few links
// only. It ends when visit returns false, or all were visited; then it calls atEnd under
// the lock. It returns false when the store is not the live one any more.
func (f *filler) walk(ctx context.Context, st *store, visit func(*pebble.Iterator, linkName) bool, atEnd func()) (bool, error) {
	next := recordStart
	s := f.serving
	var pace pacer.Pacer
	for more := true; more; pace.Pause() {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		live, err := func() (bool, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if st != s.live.Load() || st.pdb == nil || s.closed.Load() || s.mu.detached {
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

// visitSome visits links from a key on, and returns the key to continue from; more is
// false at the end.
func (st *store) visitSome(
	ctx context.Context, from []byte, visit func(*pebble.Iterator, linkName) bool,
) (next []byte, more bool, err error) {
	it, err := st.pdb.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: recordEnd})
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

// promote moves links into the table that were asked for and had to be read from Pebble.
func (f *filler) promote(ctx context.Context) {
	s := f.serving
	for ctx.Err() == nil && s.promotions.take(func(k linkName) {
		s.mu.Lock()
		defer s.mu.Unlock()
		st := s.live.Load()
		if st == nil || st.pdb == nil || s.closed.Load() || s.mu.detached {
			return
		}
		t := st.table.Load()
		if t == nil {
			return
		}
		key := appendRecordKey(nil, waypost.Slot(waypost.KindLink, k.domain, k.name), waypost.KindLink, k.domain, k.name)
		value, closer, err := st.pdb.Get(key)
		if err != nil {
			return // it is gone, or the next reader reports the error
		}
		var buf []byte
		putStored(value, k, nil, &buf, func(r *waypost.Record, ext []byte) struct{} { t.Promote(r, ext); return struct{}{} })
		if err := closer.Close(); err != nil {
			f.cfg.Logger.Warn("cannot read a link for the lookup table", "error", err)
		}
	}) {
	}
}

// sizeCache sets the size of Pebble's cache of blocks. While the table holds all links,
// few blocks are read, and half of the cache suffices for the changes of links and the
// indexes of tables.
func (f *filler) sizeCache() {
	f.serving.mu.Lock()
	st := f.serving.live.Load()
	var full bool
	if st != nil {
		t := st.table.Load()
		full = t != nil && !t.Bounded()
	}
	f.serving.mu.Unlock()
	switch {
	case full && f.enlargeCache == nil:
		f.enlargeCache = f.cache.Reserve(int(f.cfg.CacheBytes / 2))
	case !full && f.enlargeCache != nil:
		f.enlargeCache()
		f.enlargeCache = nil
	}
}

// errIncomplete is the reason why a replica cannot answer without its store.
var errIncomplete = errors.New("the lookup table does not hold all links")
