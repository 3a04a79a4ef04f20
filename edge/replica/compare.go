package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// comparison remembers what the batches since its beginning have changed in which slot, so that
// sums that are read now can be taken back to an earlier position, where the source was read.
type comparison struct {
	db   *DB
	st   *store
	from waypost.Position

	// DB.mu guards these.
	changes []numberedChange // in order
	moved   chan struct{}    // closed, and replaced, when the position moves
	ended   error            // nil: it goes on
}

// numberedChange is what a transaction has changed in a slot's sum.
type numberedChange struct {
	seq uint64
	slotChange
}

// maxChanges bounds what a comparison remembers, at 32 bytes each.
const maxChanges = 2 << 20

var _ replication.Comparer = (*DB)(nil)

// Compare implements replication.Comparer.
func (db *DB) Compare(context.Context) (replication.Comparison, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	st := db.live.Load()
	switch {
	case db.closed.Load():
		return nil, errClosed
	case st == nil:
		return nil, fmt.Errorf("%w: nothing is held yet", replication.ErrUnsettled)
	case db.frozen, db.detached, st.pdb == nil:
		return nil, errDetached
	case db.repairing != nil, st.applied.Load().repairing:
		return nil, fmt.Errorf("%w: a repair is under way", replication.ErrUnsettled)
	case st.health.failed() != nil:
		return nil, fmt.Errorf("%w: it waits for a repair or a snapshot: %w", replication.ErrUnsettled, st.health.failed().err)
	case st.comparing != nil:
		return nil, errors.New("compare: a comparison is under way already")
	}
	st.comparing = &comparison{db: db, st: st, from: st.applied.Load().position, moved: make(chan struct{})}
	return st.comparing, nil
}

// note takes in what was committed. DB.mu is held.
func (c *comparison) note(changes []numberedChange) {
	if c.changes = append(c.changes, changes...); len(c.changes) > maxChanges {
		c.end(fmt.Errorf("%w: too much has changed since the comparison began", replication.ErrUnsettled))
		return
	}
	close(c.moved)
	c.moved = make(chan struct{})
}

// end ends a comparison, if there is one. DB.mu is held.
func (c *comparison) end(why error) {
	if c == nil || c.ended != nil {
		return
	}
	c.ended, c.changes, c.st.comparing = why, nil, nil
	close(c.moved)
}

var errCompared = fmt.Errorf("%w: the comparison has ended", replication.ErrUnsettled)

// Close implements replication.Comparison.
func (c *comparison) Close() {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	c.end(errCompared)
}

// Suspect implements replication.Comparison.
func (c *comparison) Suspect(why error) { c.st.health.rot(why) }

// reach waits for a position, and gives a view of the store there or later, with what has changed
// since. The view is closed, and the store unpinned, by leave.
func (c *comparison) reach(ctx context.Context, first, last uint16, at waypost.Position) (view *pebble.Snapshot, since []slotChange, leave func() error, err error) {
	for {
		c.db.mu.Lock()
		p := c.st.applied.Load().position
		switch {
		case c.ended != nil:
			err = c.ended
		case c.db.live.Load() != c.st || c.db.detached || p.Epoch != at.Epoch:
			err = errCompared
		case at.Seq < c.from.Seq:
			err = fmt.Errorf("%w: the source was read before the comparison began", replication.ErrUnsettled)
		}
		if err != nil {
			c.db.mu.Unlock()
			return nil, nil, nil, err
		}
		if p.Seq >= at.Seq && c.db.hold(c.st, first) {
			for i := len(c.changes) - 1; i >= 0 && c.changes[i].seq > at.Seq; i-- {
				if change := c.changes[i].slotChange; change.slot >= first && change.slot <= last {
					since = append(since, change)
				}
			}
			view = c.st.pdb.NewSnapshot()
			c.db.mu.Unlock()
			return view, since, func() error { defer c.st.unpin(first); return view.Close() }, nil
		}
		moved := c.moved
		c.db.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil, nil, fmt.Errorf("wait for sequence %d, at %d: %w", at.Seq, p.Seq, ctx.Err())
		case <-moved:
		}
	}
}

// Sums implements replication.Comparison.
func (c *comparison) Sums(ctx context.Context, first, last uint16, at waypost.Position) ([]replication.Sum, error) {
	view, since, leave, err := c.reach(ctx, first, last, at)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	sums := make([]slotSum, int(last)-int(first)+1)
	if err := errors.Join(addUp(ctx, view, first, last, sums), leave()); err != nil {
		return nil, c.unreadable(err)
	}
	for _, change := range since {
		sum := &sums[change.slot-first]
		sum.Digest ^= change.digest
		sum.Records -= change.records
	}
	told := make([]replication.Sum, len(sums))
	for i := range sums {
		told[i] = sums[i].told()
	}
	return told, nil
}

// Records implements replication.Comparison.
func (c *comparison) Records(ctx context.Context, slot uint16, at waypost.Position, visit func(*waypost.Record, error) error) error {
	view, _, leave, err := c.reach(ctx, slot, slot, at)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	return c.unreadable(errors.Join(visitSlot(ctx, view, slot, visit), leave()))
}

// unreadable notes rotten files.
func (c *comparison) unreadable(err error) error {
	if pebble.IsCorruptionError(err) {
		c.st.health.fail(err, true)
		return fmt.Errorf("%w: %w", replication.ErrUnsettled, err)
	}
	return err
}

// visitSlot visits the records of a slot as a reader shows them.
func visitSlot(ctx context.Context, from pebble.Reader, slot uint16, visit func(*waypost.Record, error) error) error {
	it, err := from.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: slotKey(int(slot)), UpperBound: slotKey(int(slot) + 1)})
	if err != nil {
		return fmt.Errorf("read a slot: %w", err)
	}
	var buf []byte
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		var r waypost.Record
		var rotten error
		if buf, rotten = readRecord(buf, it.Key(), value, slot, &r); rotten != nil {
			r = waypost.Record{}
			r.Kind, r.Domain, r.Name, _ = parseRecordKey(it.Key())
		}
		err = visit(&r, rotten)
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("read a slot: %w", err)
	}
	return nil
}
