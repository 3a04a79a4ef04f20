package replica

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// A replica passes on what it has applied, by the same protocol.
var (
	_ replication.Relay   = (*DB)(nil)
	_ replication.Counter = (*DB)(nil)
)

// source pins the live store and gives its state, while it is fit to be passed on.
func (db *DB) source() (*store, *state, error) {
	st := db.pin(0)
	if st == nil {
		return nil, nil, fmt.Errorf("%w: nothing is held", replication.ErrNoSource)
	}
	s := st.applied.Load()
	var why error
	switch {
	case st.pdb == nil:
		why = errDetached
	case s.repairing || db.repairs.Load() > 0:
		why = errors.New("it is being repaired")
	case db.restores.Load() > 0:
		why = errors.New("it is being replaced")
	case db.diverged.Load():
		why = errors.New("it differs from its own source")
	default:
		why = st.health.err()
	}
	if why != nil {
		st.unpin(0)
		return nil, nil, fmt.Errorf("%w: %w", replication.ErrNoSource, why)
	}
	return st, s, nil
}

// headOf gives the head that a state of a store makes. It was the origin's when the origin said
// so, or when its last transaction was committed there.
func (db *DB) headOf(st *store, s *state) replication.Head {
	h := replication.Head{Cluster: s.cluster, Position: s.position, Digest: s.digest, At: st.lastAt.Load()}
	if o := db.origin.Load(); o != nil && o.Position == s.position && o.Digest == s.digest && o.At >= h.At {
		return *o // with its signature
	}
	return h
}

// Head implements replication.Source.
func (db *DB) Head(context.Context) (replication.Head, error) {
	st, s, err := db.source()
	if err != nil {
		return replication.Head{}, err
	}
	defer st.unpin(0)
	return db.headOf(st, s), nil
}

// Origin implements replication.Relay.
func (db *DB) Origin() replication.Head {
	st := db.pin(0)
	if st == nil {
		return replication.Head{}
	}
	defer st.unpin(0)
	h := db.headOf(st, st.applied.Load())
	if o := db.origin.Load(); o != nil && o.Position.Epoch == h.Position.Epoch && o.Position.Seq > h.Position.Seq {
		return *o
	}
	return h
}

// mended says that a repair or a restore has ended well.
func (db *DB) mended(underWay *atomic.Int32) {
	underWay.Add(-1)
	db.diverged.Store(false)
	db.moved()
}

// heard keeps the newest head of the origin.
func (db *DB) heard(h replication.Head) {
	if o := db.origin.Load(); o == nil || h.Position.Epoch.Ordinal > o.Position.Epoch.Ordinal ||
		h.Position.Epoch == o.Position.Epoch && h.At > o.At {
		db.origin.Store(&h)
	}
}

// Read implements replication.Source.
func (db *DB) Read(ctx context.Context, after waypost.Position, _ int) (replication.Batch, error) {
	st, s, err := db.source()
	if err != nil {
		return replication.Batch{}, err
	}
	defer st.unpin(0)
	b := replication.Batch{Epoch: s.position.Epoch}
	switch {
	case after == s.position:
		return b, nil
	case after.Epoch != s.position.Epoch || after.Seq == s.position.Seq:
		return b, replication.ErrOtherHistory
	case after.Seq > s.position.Seq:
		return b, replication.ErrBehind
	}
	return db.readLog(ctx, st, s, after)
}

// frozenAt gives what a store holds at this moment, and reads the state from there.
func (db *DB) frozenAt(st *store) (*pebble.Snapshot, *state, error) {
	snapshot := st.pdb.NewSnapshot()
	s, err := readState(snapshot)
	if err == nil && s.repairing {
		err = replication.ErrNoSource
	}
	if err != nil {
		return nil, nil, errors.Join(err, snapshot.Close())
	}
	return snapshot, &s, nil
}

// Snapshot implements replication.Source. It passes on nothing that is not what was written.
func (db *DB) Snapshot(ctx context.Context, first, last uint16, visit func(record []byte) error) (h replication.Head, err error) {
	st, _, err := db.source()
	if err != nil {
		return h, err
	}
	defer st.unpin(0)
	snapshot, s, err := db.frozenAt(st)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	it, err := snapshot.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: slotKey(int(first)), UpperBound: slotKey(int(last) + 1)})
	if err != nil {
		return h, fmt.Errorf("read slots: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var buf []byte
	var r waypost.Record
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return h, fmt.Errorf("read slots: %w", err)
		}
		key := it.Key()
		if buf, err = readRecord(buf, key, value, slotOf(key), &r); err != nil {
			return h, db.unfit(st, err)
		}
		if err := visit(buf); err != nil {
			return h, err
		}
	}
	if err := it.Error(); err != nil {
		return h, fmt.Errorf("read slots: %w", err)
	}
	return db.headOf(st, s), nil
}

// unfit notes that a record is not what was written, which is for a repair.
func (db *DB) unfit(st *store, err error) error {
	st.health.rot(err)
	return fmt.Errorf("%w: %w", replication.ErrNoSource, err)
}

// Sums implements replication.Source.
func (db *DB) Sums(ctx context.Context, first, last uint16) (told []replication.Sum, h replication.Head, err error) {
	st, _, err := db.source()
	if err != nil {
		return nil, h, err
	}
	defer st.unpin(0)
	snapshot, s, err := db.frozenAt(st)
	if err != nil {
		return nil, h, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	sums := make([]slotSum, int(last)-int(first)+1)
	if err := addUp(ctx, snapshot, first, last, sums); err != nil {
		return nil, h, err
	}
	told = make([]replication.Sum, len(sums))
	for i := range sums {
		if sums[i].rotten != nil {
			return nil, h, db.unfit(st, sums[i].rotten)
		}
		told[i] = sums[i].Sum
	}
	return told, db.headOf(st, s), nil
}

// slotsAtOnce is how many records one reading of slots is meant to give.
const slotsAtOnce = 50_000

// SnapshotWidth implements replication.Source.
func (db *DB) SnapshotWidth(context.Context) (int, error) {
	st, s, err := db.source()
	if err != nil {
		return 0, err
	}
	defer st.unpin(0)
	width := slotsAtOnce * waypost.Slots / max(s.records, 1)
	return 1 << (bits.Len64(min(max(width, 1), waypost.Slots)) - 1), nil
}

// Count implements replication.Counter.
func (db *DB) Count(context.Context) (uint64, error) {
	st, s, err := db.source()
	if err != nil {
		return 0, err
	}
	defer st.unpin(0)
	return s.records, nil
}

// Changed implements replication.Source.
func (db *DB) Changed() <-chan struct{} {
	db.hints.Lock()
	defer db.hints.Unlock()
	if db.hint == nil {
		db.hint = make(chan struct{})
	}
	return db.hint
}

// moved tells those who wait that there is something new.
func (db *DB) moved() {
	db.hints.Lock()
	defer db.hints.Unlock()
	if db.hint != nil {
		close(db.hint)
		db.hint = nil
	}
}

// LastKept gives the batch that the log ends with, as [replication.EncodeBatch] made it; nil when there
// is none.
func (db *DB) LastKept() (c replication.Cluster, kept []byte, err error) {
	st := db.pin(0)
	if st == nil {
		return c, nil, nil
	}
	defer st.unpin(0)
	s := st.applied.Load()
	if st.pdb == nil {
		return c, nil, nil
	}
	value, closer, err := st.pdb.Get(appendLogKey(nil, s.position.Seq))
	if errors.Is(err, pebble.ErrNotFound) {
		return s.cluster, nil, nil
	}
	if err != nil {
		return c, nil, fmt.Errorf("read the log: %w", err)
	}
	e, err := parseLogEntry(value)
	kept = append(kept, e.frame...)
	return s.cluster, kept, errors.Join(err, closer.Close())
}
