package replica

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// source knows what the replica may pass on of the batches that it has applied. With it,
// DB implements replication.Relay.
type source struct {
	serving *serving

	// Any goroutine reads these, and the follower's writes them.
	origin   atomic.Pointer[replication.Head] // as last received; nil: never
	diverged atomic.Bool                      // the replica differs from its own source
	restores atomic.Int32                     // under way
	repairs  atomic.Int32                     // under way

	decoders sync.Pool // of *replication.BatchDecoder

	waiting struct {
		sync.Mutex
		changed chan struct{} // closed when the position moves next; nil: no caller waits
	}
}

// pinFit pins the live store and returns its state, while the store is fit to be passed
// on.
func (o *source) pinFit() (*store, *state, error) {
	st := o.serving.pin(0)
	if st == nil {
		return nil, nil, fmt.Errorf("%w: nothing is held", replication.ErrNoSource)
	}
	s := st.applied.Load()
	var why error
	switch {
	case s.repairing || o.repairs.Load() > 0:
		why = errors.New("it is being repaired")
	case o.restores.Load() > 0:
		why = errors.New("it is being replaced")
	case o.diverged.Load():
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

// headOf returns the head for a state of a store. Its time is the origin's: of its last
// heartbeat at this position, or of the last transaction.
func (o *source) headOf(st *store, s *state) replication.Head {
	h := replication.Head{Cluster: s.cluster, Position: s.position, Digest: s.digest, At: st.lastAt.Load()}
	if origin := o.origin.Load(); origin != nil && origin.Position == s.position && origin.Digest == s.digest && origin.At >= h.At {
		return *origin // with its signature
	}
	return h
}

// Head implements replication.Source.
func (db *DB) Head(context.Context) (replication.Head, error) {
	st, s, err := db.source.pinFit()
	if err != nil {
		return replication.Head{}, err
	}
	defer st.unpin(0)
	return db.source.headOf(st, s), nil
}

// Origin implements replication.Relay.
func (db *DB) Origin() replication.Head {
	st := db.serving.pin(0)
	if st == nil {
		return replication.Head{}
	}
	defer st.unpin(0)
	h := db.source.headOf(st, st.applied.Load())
	origin := db.source.origin.Load()
	if origin != nil && origin.Position.Epoch == h.Position.Epoch && origin.Position.Seq > h.Position.Seq {
		return *origin
	}
	return h
}

// heard keeps the newest head of the origin.
func (o *source) heard(h replication.Head) {
	if origin := o.origin.Load(); origin == nil || h.Position.Epoch.Ordinal > origin.Position.Epoch.Ordinal ||
		h.Position.Epoch == origin.Position.Epoch && h.At > origin.At {
		o.origin.Store(&h)
	}
}

// recovered ends a successful repair or restore, which underWay counts.
func (o *source) recovered(underWay *atomic.Int32) {
	underWay.Add(-1)
	o.diverged.Store(false)
	o.moved()
}

// Read implements replication.Source.
func (db *DB) Read(ctx context.Context, after waypost.Position, _ int) (replication.Batch, error) {
	st, s, err := db.source.pinFit()
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
	return db.source.readLog(ctx, st, s, after)
}

// view is a Pebble snapshot of a pinned store with the state in it.
type view struct {
	*pebble.Snapshot
	st    *store
	state state
}

// open returns a view of the live store. close ends it.
func (o *source) open() (v view, err error) {
	st, _, err := o.pinFit()
	if err != nil {
		return v, err
	}
	if !st.verified.Load() {
		st.unpin(0)
		return v, fmt.Errorf("%w: its records are not verified yet", replication.ErrNoSource)
	}
	v = view{Snapshot: st.pdb.NewSnapshot(), st: st}
	v.state, err = readState(v.Snapshot)
	if err == nil && v.state.repairing {
		err = replication.ErrNoSource
	}
	if err != nil {
		return v, errors.Join(err, v.close())
	}
	return v, nil
}

func (v *view) close() error {
	defer v.st.unpin(0)
	return v.Close()
}

// Snapshot implements replication.Source. It passes on no damaged record.
func (db *DB) Snapshot(ctx context.Context, first, last uint16, visit func(record []byte) error) (h replication.Head, err error) {
	v, err := db.source.open()
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	it, err := v.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: slotKey(int(first)), UpperBound: slotKey(int(last) + 1)})
	if err != nil {
		return h, fmt.Errorf("read slots: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var r waypost.Record
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return h, fmt.Errorf("read slots: %w", err)
		}
		if err := readRecord(it.Key(), value, &r); err != nil {
			return h, unfit(v.st, err)
		}
		if err := visit(value); err != nil {
			return h, err
		}
	}
	if err := it.Error(); err != nil {
		return h, fmt.Errorf("read slots: %w", err)
	}
	return db.source.headOf(v.st, &v.state), nil
}

// unfit records a damaged record, for which the store needs a repair.
func unfit(st *store, err error) error {
	st.health.rot(err)
	return fmt.Errorf("%w: %w", replication.ErrNoSource, err)
}

// Sums implements replication.Source.
func (db *DB) Sums(ctx context.Context, first, last uint16) (found []replication.Sum, h replication.Head, err error) {
	v, err := db.source.open()
	if err != nil {
		return nil, h, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	sums := make([]slotSum, int(last)-int(first)+1)
	if err := addUp(ctx, v, first, last, sums); err != nil {
		return nil, h, err
	}
	found = make([]replication.Sum, len(sums))
	for i := range sums {
		if sums[i].rotten != nil {
			return nil, h, unfit(v.st, sums[i].rotten)
		}
		found[i] = sums[i].Sum
	}
	return found, db.source.headOf(v.st, &v.state), nil
}

// slotsAtOnce is the number of records that one read of slots should return.
const slotsAtOnce = 50_000

// SnapshotWidth implements replication.Source.
func (db *DB) SnapshotWidth(context.Context) (int, error) {
	st, s, err := db.source.pinFit()
	if err != nil {
		return 0, err
	}
	defer st.unpin(0)
	width := slotsAtOnce * waypost.Slots / max(s.records, 1)
	return 1 << (bits.Len64(min(max(width, 1), waypost.Slots)) - 1), nil
}

// Count implements replication.Counter.
func (db *DB) Count(context.Context) (uint64, error) {
	st, s, err := db.source.pinFit()
	if err != nil {
		return 0, err
	}
	defer st.unpin(0)
	return s.records, nil
}

// Changed implements replication.Source.
func (db *DB) Changed() <-chan struct{} {
	db.source.waiting.Lock()
	defer db.source.waiting.Unlock()
	if db.source.waiting.changed == nil {
		db.source.waiting.changed = make(chan struct{})
	}
	return db.source.waiting.changed
}

// moved wakes the callers of Changed.
func (o *source) moved() {
	o.waiting.Lock()
	defer o.waiting.Unlock()
	if o.waiting.changed != nil {
		close(o.waiting.changed)
		o.waiting.changed = nil
	}
}

// LastKept returns the last batch of the log, as [replication.EncodeBatch] made it; nil
// if the log is empty.
func (db *DB) LastKept() (c replication.Cluster, kept []byte, err error) {
	st := db.serving.pin(0)
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

// Records visits every record that the live store holds, as encoded, at one position,
// which it returns. A record is valid until visit returns.
func (db *DB) Records(ctx context.Context, visit func(record []byte) error) (waypost.Position, error) {
	st := db.serving.pin(0)
	if st == nil {
		return waypost.Position{}, nil
	}
	defer st.unpin(0)
	s, err := st.scan(ctx, visit)
	return s.position, err
}
