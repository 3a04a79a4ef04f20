package replication

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"waypost"
)

// slots takes slots from r.next on, up to r.until.
func (r *restoring) slots(ctx context.Context) (progress bool, err error) {
	f := r.follower
	asked, query := r.next, url.Values{}
	if r.until == waypost.Slots {
		query.Set("first", strconv.Itoa(asked))
	} else {
		query.Set("slots", fmt.Sprintf("%d-%d", asked, r.until-1))
	}
	d, err := f.connect(ctx, PathSnapshot, query, f.cfg.Sink.Position())
	if err != nil {
		return false, err
	}
	defer d.close()
	if err := r.greet(ctx, d); err != nil {
		return false, err
	}
	switch r.next {
	case asked:
		r.restore.Rewind()
	case waypost.Slots: // nothing but the tail is missing
		return true, nil
	default: // an earlier process has come this far
		d.close()
		return r.slots(ctx)
	}
	progress, err = f.takeSlots(d, func(part *slotsPart, last bool) error { return r.take(ctx, part, last) })
	if err == nil && r.next != r.until {
		err = fmt.Errorf("%w: the snapshot ended at slot %d", errFrame, r.next)
	}
	return progress, err
}

// greet begins the restore at the first hello, and holds later ones against it.
func (r *restoring) greet(ctx context.Context, d *dial) error {
	h := d.hello
	if r.restore == nil {
		restore, err := r.follower.cfg.Sink.Restore(ctx, h.Cluster)
		if err != nil {
			return fmt.Errorf("%w: begin: %w", errLocal, err)
		}
		r.restore, r.cluster = restore, h.Cluster
		r.stretch = stretch{h.Position, h.Position, h.Digest}
		f := r.follower
		f.cfg.Logger.Info("taking a snapshot", "reason", reasonOf(f.diverged), "position", f.cfg.Sink.Position())
		if fitter, ok := restore.(Fitter); ok {
			if err := fitter.Fits(d.records); err != nil {
				return fmt.Errorf("%w: begin: %w", errLocal, err)
			}
		}
		return r.resume(ctx)
	}
	if h.Cluster != r.cluster || h.Position.Epoch != r.lowest.Epoch {
		return errHistory
	}
	if r.until < waypost.Slots && h.Position.Seq >= r.highest.Seq { // what comes is held against what was signed
		r.highest, r.digest = h.Position, h.Digest
	}
	if h.Position.Seq < r.lowest.Seq && r.next < waypost.Slots { // another server, which is a little behind
		r.lowest = h.Position
	}
	return nil
}

// resume goes on where an earlier restore has ended, if that was in the source's history.
func (r *restoring) resume(ctx context.Context) error {
	p := r.restore.Progress()
	if p.Next == 0 {
		return nil
	}
	f := r.follower
	if p.Lowest.Epoch != r.lowest.Epoch || p.Lowest.Seq > r.lowest.Seq {
		f.cfg.Logger.Warn("what was taken of a snapshot is of another history: it begins anew", "lowest", p.Lowest, "head", r.lowest)
		if err := r.restore.Abort(); err != nil {
			return fmt.Errorf("%w: abort: %w", errLocal, err)
		}
		restore, err := f.cfg.Sink.Restore(ctx, r.cluster)
		if err != nil {
			return fmt.Errorf("%w: begin: %w", errLocal, err)
		}
		r.restore = restore
		return nil
	}
	head := Head{Position: r.highest, Digest: r.digest}
	r.next, r.stretch = p.Next, stretch{p.Lowest, p.Highest, p.Digest}
	if r.next == waypost.Slots { // what was held back may be put right by now
		r.read(&head)
		r.resumedWhole = true
	}
	f.cfg.Logger.Info("the snapshot goes on where it was interrupted", "slot", r.next, "lowest", r.lowest)
	return nil
}

// take hands on one part of a range. Parts of a range that was cut come again
// from its beginning: a record applies only when it is newer, and whatever went
// away in between is in the tail.
func (r *restoring) take(ctx context.Context, part *slotsPart, last bool) error {
	if int(part.first) != r.next {
		return fmt.Errorf("%w: slots %d to %d where %d was due", errMisplaced, part.first, part.last, r.next)
	}
	if len(part.records) > 0 {
		if err := r.restore.Slots(ctx, part.records); err != nil {
			return fmt.Errorf("%w: take slots %d to %d: %w", errLocal, part.first, part.last, err)
		}
		r.count += uint64(len(part.records))
	}
	if !last {
		return nil
	}
	if part.head.Cluster != r.cluster || !r.read(&part.head) {
		return errHistory
	}
	r.next = int(part.last) + 1
	r.noteRead(int(part.first), part.head.Position)
	if err := r.restore.Keep(ctx, Progress{r.next, r.lowest, r.highest, r.digest}); err != nil {
		return fmt.Errorf("%w: keep the slots before %d: %w", errLocal, r.next, err)
	}
	return nil
}
