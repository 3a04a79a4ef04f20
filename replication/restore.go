package replication

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"waypost"
)

// snapshot fills a fresh replica and swaps it in.
func (f *Follower) snapshot(ctx context.Context) (fruitful bool, err error) {
	begun := time.Now()
	f.status.restoring(true)
	defer f.status.restoring(false)
	r := restoring{follower: f}
	err = r.run(ctx)
	if r.restore != nil { // a source that cannot be reached costs it nothing
		f.cooldown.begun(begun)
	}
	if err != nil && r.restore != nil {
		f.beyondRepair, f.repairs = false, 0 // there may be no room for a second store
	}
	if err != nil {
		return false, fmt.Errorf("take a snapshot: %w", err)
	}
	f.diverged, f.beyondRepair, f.repairs = nil, false, 0
	p := f.cfg.Sink.Position()
	f.cfg.Trust.settled(p)
	f.status.restored(p)
	f.cfg.Logger.Info("serving from the new snapshot", "position", p, "records", r.count, "took", time.Since(begun))
	return true, nil
}

// restoring is one snapshot under way.
type restoring struct {
	follower *Follower
	restore  Restore
	next     int    // the first slot not yet held
	count    uint64 // records received
	held     int    // bytes of the records of the present range
	// Every slot was read at or after lowest, the head of the first hello.
	stretch
	cluster Cluster
}

func (r *restoring) run(ctx context.Context) (err error) {
	defer func() {
		if r.restore == nil {
			return
		}
		if endErr := r.endRestore(ctx, err); endErr != nil {
			err = errors.Join(err, fmt.Errorf("end it: %w", endErr))
		}
	}()
	if err := r.retry(ctx, r.slots); err != nil {
		return err
	}
	if err := r.restore.BeginTail(ctx, r.lowest, r.highest); err != nil {
		return fmt.Errorf("%w: begin the tail: %w", errLocal, err)
	}
	if r.lowest != r.highest {
		tail := func(ctx context.Context) (bool, error) { return r.follower.tail(ctx, &r.stretch, r.restore.Apply) }
		if err := r.retry(ctx, tail); err != nil {
			return err
		}
	}
	if err := r.restore.Commit(ctx, r.digest); err != nil {
		return fmt.Errorf("%w: commit: %w", errLocal, err)
	}
	return nil
}

// endRestore keeps the slots that were taken when only the connection or this process
// ended, the disk is full, or the snapshot is held back.
func (r *restoring) endRestore(ctx context.Context, err error) error {
	_, reset := errors.AsType[*resetError](err)
	_, held := errors.AsType[*Held](err)
	lost := !held && !errors.Is(err, ErrNoRoom) && (reset || errors.Is(err, errLocal) || errors.Is(err, errHistory))
	if ctx.Err() != nil || !lost {
		return r.restore.Suspend()
	}
	return r.restore.Abort()
}

// retry repeats a step of a snapshot.
func (r *restoring) retry(ctx context.Context, step func(context.Context) (bool, error)) error {
	return r.follower.retry(ctx, "snapshot", func(ctx context.Context) (bool, error) {
		progress, err := step(ctx)
		if err != nil && r.restore == nil {
			err = &hopeless{err} // the source cannot be reached: nothing was begun
		}
		return progress, err
	})
}

// slots takes the slots from r.next on.
func (r *restoring) slots(ctx context.Context) (progress bool, err error) {
	f := r.follower
	asked := r.next
	d, err := f.source.connect(ctx, PathSnapshot, url.Values{"first": {strconv.Itoa(asked)}}, f.cfg.Sink.Position())
	if err != nil {
		return false, err
	}
	defer d.close()
	if err := r.greet(ctx, d); err != nil {
		return false, err
	}
	r.held = 0
	switch r.next {
	case asked:
		r.restore.Rewind()
	case waypost.Slots: // nothing but the tail is missing
		return true, nil
	default: // an earlier process has come this far
		d.close()
		return r.slots(ctx)
	}
	progress, err = d.takeSlots(func(part *slotsPart, last bool) error { return r.sendPart(ctx, part, last) })
	if err == nil && r.next != waypost.Slots {
		err = fmt.Errorf("%w: the snapshot ended at slot %d", errFrame, r.next)
	}
	return progress, err
}

// greet begins the restore at the first hello, and holds later ones against it.
func (r *restoring) greet(ctx context.Context, d *sourceConn) error {
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
		if err := restore.Fits(d.records); err != nil {
			return fmt.Errorf("%w: begin: %w", errLocal, err)
		}
		return r.resume(ctx)
	}
	if h.Cluster != r.cluster || h.Position.Epoch != r.lowest.Epoch {
		return errHistory
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
		f.cfg.Logger.Warn("beginning again, because the slots of an earlier snapshot are of another history", "lowest", p.Lowest, "head", r.lowest)
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
	}
	f.cfg.Logger.Info("continuing the interrupted snapshot", "slot", r.next, "lowest", r.lowest)
	return nil
}

// sendPart hands on one part of a range. Parts of a range that was cut come again
// from its beginning: a record applies only when it is newer, and whatever went
// away in between is in the tail.
func (r *restoring) sendPart(ctx context.Context, part *slotsPart, last bool) error {
	if int(part.first) != r.next {
		return fmt.Errorf("%w: slots %d to %d where %d was due", errMisplaced, part.first, part.last, r.next)
	}
	for _, raw := range part.records {
		r.held += len(raw)
	}
	if r.held > maxSlot {
		return fmt.Errorf("%w: slots %d to %d are too large", errLocal, part.first, part.last)
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
	r.next, r.held = int(part.last)+1, 0
	if err := r.restore.Keep(ctx, Progress{r.next, r.lowest, r.highest, r.digest}); err != nil {
		return fmt.Errorf("%w: keep the slots before %d: %w", errLocal, r.next, err)
	}
	return nil
}
