package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"waypost"
	"waypost/replication"
)

// comparison records how the batches since its beginning have changed each slot, so that
// sums that are read now can be reduced to an earlier position, where the source was
// read.
type comparison struct {
	serving *serving
	st      *store
	from    waypost.Position

	// Guarded by serving.mu.
	changes []numberedChange // in order
	moved   chan struct{}    // closed, and replaced, when the position moves
	ended   error            // nil: it goes on
}

// numberedChange is the change of a slot's sum by a transaction.
type numberedChange struct {
	seq uint64
	slotChange
}

// maxChanges bounds the changes that a comparison keeps, at 32 bytes each.
const maxChanges = 2 << 20

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
	case db.mu.repairing != nil, st.applied.Load().repairing:
		return nil, fmt.Errorf("%w: a repair is under way", replication.ErrUnsettled)
	case st.health.failed() != nil:
		return nil, fmt.Errorf("%w: it waits for a repair or a snapshot: %w", replication.ErrUnsettled, st.health.failed().err)
	case st.guarded.comparing != nil:
		return nil, errors.New("compare: a comparison is under way already")
	}
	st.guarded.comparing = &comparison{serving: &db.serving, st: st, from: st.applied.Load().position, moved: make(chan struct{})}
	return st.guarded.comparing, nil
}

// noteChanges records changes that were committed. The caller holds serving.mu.
func (c *comparison) noteChanges(changes []numberedChange) {
	if c.changes = append(c.changes, changes...); len(c.changes) > maxChanges {
		c.endComparison(fmt.Errorf("%w: too much has changed since the comparison began", replication.ErrUnsettled))
		return
	}
	close(c.moved)
	c.moved = make(chan struct{})
}

// endComparison ends a comparison, if there is one. The caller holds serving.mu.
func (c *comparison) endComparison(why error) {
	if c == nil || c.ended != nil {
		return
	}
	c.ended, c.changes, c.st.guarded.comparing = why, nil, nil
	close(c.moved)
}

var errCompared = fmt.Errorf("%w: the comparison has ended", replication.ErrUnsettled)

// Close implements replication.Comparison.
func (c *comparison) Close() {
	c.serving.mu.Lock()
	defer c.serving.mu.Unlock()
	c.endComparison(errCompared)
}

// Suspect implements replication.Comparison.
func (c *comparison) Suspect(why error) { c.st.health.rot(why) }

// reach waits for a position, and returns a view of the store there or later, with the
// changes since. leave closes the view and unpins the store.
func (c *comparison) reach(
	ctx context.Context, first, last uint16, at waypost.Position,
) (view *pebble.Snapshot, since []slotChange, leave func() error, err error) {
	for {
		c.serving.mu.Lock()
		p := c.st.applied.Load().position
		switch {
		case c.ended != nil:
			err = c.ended
		case c.serving.live.Load() != c.st || p.Epoch != at.Epoch:
			err = errCompared
		case at.Seq < c.from.Seq:
			err = fmt.Errorf("%w: the source was read before the comparison began", replication.ErrUnsettled)
		}
		if err != nil {
			c.serving.mu.Unlock()
			return nil, nil, nil, err
		}
		if p.Seq >= at.Seq && c.serving.hold(c.st, first) {
			for i := len(c.changes) - 1; i >= 0 && c.changes[i].seq > at.Seq; i-- {
				if change := c.changes[i].slotChange; change.slot >= first && change.slot <= last {
					since = append(since, change)
				}
			}
			view = c.st.pdb.NewSnapshot()
			c.serving.mu.Unlock()
			return view, since, func() error { defer c.st.unpin(first); return view.Close() }, nil
		}
		moved := c.moved
		c.serving.mu.Unlock()
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
	compared := make([]replication.Sum, len(sums))
	for i := range sums {
		compared[i] = sums[i].comparable()
	}
	return compared, nil
}

// Records implements replication.Comparison.
func (c *comparison) Records(ctx context.Context, slot uint16, at waypost.Position, visit func(*waypost.Record, error) error) error {
	view, _, leave, err := c.reach(ctx, slot, slot, at)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	return c.unreadable(errors.Join(visitSlot(ctx, view, slot, visit), leave()))
}

// unreadable records corrupt files.
func (c *comparison) unreadable(err error) error {
	if pebble.IsCorruptionError(err) {
		c.st.health.fail(err, true)
		return fmt.Errorf("%w: %w", replication.ErrUnsettled, err)
	}
	return err
}
