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
	"waypost/internal/failpoint"
	"waypost/internal/pacer"
	"waypost/replication"
)

// filler keeps the lookup table of the live store as full as it can be.
//
// A table is written only under serving.mu, or by the restore that fills its store. While
// neither writes, the table has the same answer as Pebble for each link, or no answer.
type filler struct {
	cfg      *Config
	metrics  *metrics
	serving  *serving
	budget   *lookup.Budget // nil: there is no lookup table
	unfilled chan struct{}  // gets a token when the table may need filling

	verifications chan chan<- verified // asked for
}

// newTable makes an empty table, and returns nil when the replica has no tables, or no
// memory is left for one. The table leaves that many bytes of the budget, and is gradual
// if it is filled while redirects are answered from another.
func (f *filler) newTable(leave int64, gradual bool) *lookup.Table {
	if f.budget == nil {
		return nil
	}
	t, err := lookup.New(lookup.Config{Budget: f.budget, Leave: leave, Gradual: gradual})
	if err != nil {
		f.cfg.Logger.Debug("cannot make a lookup table yet", "error", err)
		return nil
	}
	return t
}

// storedRecord is a record as Pebble holds it.
type storedRecord struct {
	record waypost.Record
	raw    []byte // good until the next one is read
	err    error  // replication.ErrContent: the record is intact, and must not be served
}

// read reads the record that is kept as value under a key.
func (s *storedRecord) read(key, value []byte, err error) {
	if s.err = err; err == nil {
		s.raw, s.err = value, judgeRecord(key, value, &s.record)
	}
}

// damaged returns the error of a record that is not intact.
func (s *storedRecord) damaged() error {
	if errors.Is(s.err, replication.ErrContent) {
		return nil
	}
	return s.err
}

// put passes a link to one of the table's methods. A link that must not be served, or
// cannot be read, becomes a mark. Readers that meet the mark ask Pebble, which returns
// the error.
func put[T any](s *storedRecord, link linkName, method func(*waypost.Record, []byte) T) T {
	if s.err != nil {
		return method(&waypost.Record{Domain: link.domain, Name: link.name}, nil) // of no kind that the table knows
	}
	return method(&s.record, replication.Extensions(s.raw))
}

// linkName is the part of a link's record that its key in Pebble holds.
type linkName struct {
	domain waypost.DomainID
	name   []byte
}

// parseLinkKey reads the key of a link's record, and returns false for all other keys.
func parseLinkKey(key []byte) (linkName, bool) {
	kind, domain, name, ok := parseRecordKey(key)
	return linkName{domain, name}, ok && kind.IsLink() && len(name) > 0
}

// wake makes the filler check the live store's table.
func (f *filler) wake() {
	select {
	case f.unfilled <- struct{}{}:
	default:
	}
}

func (f *filler) fillLoop(ctx context.Context) {
	var due <-chan time.Time // nil: never
	if f.cfg.VerifyInterval > 0 {
		ticker := time.NewTicker(f.cfg.VerifyInterval)
		defer ticker.Stop()
		due = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.unfilled:
			if err := f.fill(ctx); err != nil && ctx.Err() == nil {
				f.cfg.Logger.Error("cannot fill the lookup table; reading links from disk", "error", err)
			}
		case <-f.serving.promotions.wake:
			f.promote(ctx)
		case <-due:
			if v := f.verifyAgain(ctx); v.err != nil && ctx.Err() == nil {
				f.cfg.Logger.Warn("cannot verify the replica", "error", v.err)
			}
		case answer := <-f.verifications:
			answer <- f.verifyAgain(ctx)
		}
	}
}

// fill fills the table of the live store, and verifies the store if it was opened: both
// read all records, and do so once.
func (f *filler) fill(ctx context.Context) error {
	if err := f.fillTable(ctx); err != nil {
		return err
	}
	return f.verify(ctx)
}

// fillTable loads the live store into its table or, when that is too much, makes a filter
// of all keys.
func (f *filler) fillTable(ctx context.Context) error {
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
		done, err := f.walk(ctx, st, storeVisit{
			link: func(link linkName, s *storedRecord) bool {
				if s.err == nil {
					f.cfg.Arrived(&s.record)
				}
				return put(s, link, t.Load)
			},
			atEnd: func() { st.guarded.loaded = true; t.Finish() },
		})
		if !done || err != nil {
			return err
		}
		if t.IsComplete() {
			f.cfg.Logger.Info("filled the lookup table with all links", "links", t.Stats().Entries, "bytes", t.Stats().Bytes,
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
	_, err := f.walk(ctx, st, storeVisit{
		name:  func(link linkName) { t.Note(link.domain, link.name) },
		atEnd: t.FilterReady,
	})
	f.cfg.Logger.Warn("filled the lookup table with a part of the links; reading the others from disk",
		"links", t.Stats().Entries, "of", records, "bytes", t.Stats().Bytes)
	return err
}

// fillable returns the live store and its table when the table is not full. The caller
// holds serving.mu.
func (f *filler) fillable() (*store, *lookup.Table) {
	s := f.serving
	st := s.live.Load()
	if st == nil || !f.usable() || f.budget == nil || s.retiring.Load() > 0 {
		return nil, nil // when a store has been retired, the filler is woken again
	}
	t := st.table.Load()
	if t == nil {
		if t = f.newTable(0, false); t == nil {
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

// usable reports whether the live store can be read. The caller holds serving.mu.
func (f *filler) usable() bool {
	return !f.serving.closed.Load()
}

const (
	walkRecords = 1024
	walkTime    = time.Millisecond
)

// storeVisit holds the functions that a walk calls, under serving.mu. All may be nil.
type storeVisit struct {
	link  func(linkName, *storedRecord) bool // for each link; false ends the walk
	name  func(linkName)                     // for each link, when link is nil
	atEnd func()
	// added is called with the sum of all records, and the damage found. A walk with
	// added adds the records up also if they have been added up before.
	added func(sum replication.Sum, damage error)
}

// storeWalk visits the records of a store, some at a time. Its caller may write the
// store.
type storeWalk struct {
	storeVisit
	st    *store
	next  []byte // key to continue from
	found storedRecord
	ended bool // all were visited, or link has ended the walk
	whole bool // all were visited
}

// walk visits all links of the live store, and adds up its records if they are
// unverified. It holds serving.mu for a few records at a time, so that it sees the
// present records of Pebble, and changes wait for a few records only. It returns false
// when another store has become the live one.
func (f *filler) walk(ctx context.Context, st *store, v storeVisit) (bool, error) {
	w := storeWalk{storeVisit: v, st: st, next: recordStart}
	var pace pacer.Pacer
	pace.Begin(0) // until it is done, each redirect reads the disk
	for first := true; !w.ended; first = false {
		failpoint.Hit("read the replica")
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if live, err := f.step(ctx, &w, first); err != nil || !live {
			return false, err
		}
		pace.Pause()
	}
	return true, nil
}

// step takes one step of a walk under the lock.
func (f *filler) step(ctx context.Context, w *storeWalk, first bool) (live bool, err error) {
	mu, st := &f.serving.mu, w.st
	mu.Lock()
	defer mu.Unlock()
	if st != f.serving.live.Load() || !f.usable() {
		return false, nil
	}
	if first {
		st.beginCheck(w.added != nil)
	}
	err = w.some(ctx)
	switch {
	case err != nil:
		if ctx.Err() == nil && st.guarded.check != nil {
			f.endCheck(w, err)
		}
	case w.whole:
		f.endCheck(w, nil)
	case w.ended:
		st.guarded.check = nil // another walk adds up from the beginning
	}
	if err == nil && w.ended && w.atEnd != nil {
		w.atEnd()
	}
	return true, err
}

// some visits records from next on.
func (w *storeWalk) some(ctx context.Context) (err error) {
	it, err := w.st.pdb.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: w.next, UpperBound: recordEnd})
	if err != nil {
		return fmt.Errorf("read the records: %w", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("read the records: %w", closeErr)
		}
	}()
	check := w.st.guarded.check
	start, ok := time.Now(), it.First()
	for n := 0; ok; n++ {
		key := it.Key()
		if n == walkRecords || n%64 == 63 && time.Since(start) > walkTime {
			w.next = bytes.Clone(key)
			if check != nil {
				check.next = w.next
			}
			return nil
		}
		link, isLink := parseLinkKey(key)
		if check != nil || isLink && w.link != nil {
			value, valueErr := it.ValueAndErr()
			w.found.read(key, value, valueErr)
		}
		if check != nil {
			check.addRecord(&w.found.record, w.found.damaged())
		}
		switch {
		case isLink && w.link != nil:
			if !w.link(link, &w.found) {
				w.ended = true
				return nil
			}
		case isLink && w.name != nil:
			w.name(link)
		}
		ok = it.Next()
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read the records: %w", err)
	}
	w.ended, w.whole = true, true
	return nil
}

// promote moves links into the table that were asked for and had to be read from Pebble.
func (f *filler) promote(ctx context.Context) {
	s := f.serving
	for ctx.Err() == nil && s.promotions.takeLinks(func(k linkName) {
		s.mu.Lock()
		defer s.mu.Unlock()
		st := s.live.Load()
		if st == nil || s.closed.Load() {
			return
		}
		t := st.table.Load()
		if t == nil {
			return
		}
		kind := waypost.KindOf(k.name)
		key := appendRecordKey(nil, waypost.Slot(kind, k.domain, k.name), kind, k.domain, k.name)
		value, closer, err := st.pdb.Get(key)
		if err != nil {
			return // it is gone, or the next reader reports the error
		}
		var found storedRecord
		found.read(key, value, nil)
		put(&found, k, func(r *waypost.Record, ext []byte) struct{} { t.Promote(r, ext); return struct{}{} })
		if err := closer.Close(); err != nil {
			f.cfg.Logger.Warn("cannot read a link for the lookup table", "error", err)
		}
	}) {
	}
}
