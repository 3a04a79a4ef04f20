package replication

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"waypost"
)

const (
	// repairTries bounds how often in a row a repair may fail before a snapshot is taken.
	repairTries = 3
	// maxDiffering bounds how many slots a repair replaces.
	maxDiffering = waypost.Slots / 2
	// worthCounting is the number of records that a repair may replace even if that is
	// more than half of all.
	worthCounting = 10_000
)

// errBeyondRepair says that the replica needs a snapshot, or that a snapshot is cheaper
// than a repair.
var errBeyondRepair = errors.New("a snapshot is needed")

func (f *Follower) midRepair() bool {
	r, ok := f.cfg.Sink.(Repairer)
	return ok && r.Repairing()
}

// repairable reports whether a repair may make the sink whole again: it holds something,
// and it is known to be of another history, or to differ, or to be in the middle of a
// repair.
func (f *Follower) repairable(p waypost.Position) bool {
	if _, ok := f.cfg.Sink.(Repairer); !ok || p.IsZero() || f.beyondRepair || f.repairs >= repairTries {
		return false
	}
	if f.diverged == nil {
		return true
	}
	if reset, ok := errors.AsType[*resetError](f.diverged); ok {
		return reset.reason == ResetOtherHistory || f.midRepair()
	}
	return true
}

// repair compares the sink's slots with the source's, and replaces the slots that differ.
func (f *Follower) repair(ctx context.Context) (fruitful bool, err error) {
	begun := time.Now()
	f.status.repairing(true)
	defer f.status.repairing(false)
	r := repairing{follower: f}
	err = r.run(ctx)
	if r.repair != nil {
		f.cooldown.begun(begun)
	}
	if err != nil {
		if _, held := errors.AsType[*Held](err); r.repair != nil && ctx.Err() == nil && !held {
			f.repairs++
		}
		if errors.Is(err, ErrDiverged) {
			err = errors.Join(errBeyondRepair, err)
		}
		return false, fmt.Errorf("repair the replica: %w", err)
	}
	reason := f.diverged
	f.diverged, f.repairs = nil, 0
	p := f.cfg.Sink.Position()
	f.cfg.Trust.settled(p)
	f.status.repaired(p, r.replaced)
	f.cfg.Logger.Info("repaired the replica", "reason", reason, "position", p, "slots", r.replaced, "records", r.records,
		"took", time.Since(begun))
	return true, nil
}

// repairing is one repair under way.
type repairing struct {
	follower *Follower
	repair   Repair
	cluster  Cluster
	next     int // the first slot of which no sum has come
	remote   [waypost.Slots]Sum
	at       [waypost.Slots]uint64 // where each was added up, or read
	stretch
	differing []uint16 // not yet replaced, in order
	replaced  int
	records   uint64 // that were fetched
}

func (r *repairing) run(ctx context.Context) (err error) {
	f := r.follower
	from := f.cfg.Sink.Position()
	defer func() {
		if r.repair == nil {
			return
		}
		if abortErr := r.repair.Abort(); abortErr != nil {
			err = errors.Join(err, fmt.Errorf("abort: %w", abortErr))
		}
	}()
	if err := f.retry(ctx, "comparison", r.sums); err != nil {
		return err
	}
	// Within its history the replica first catches up with the source, so that
	// transactions it lacks do not count as damage.
	_, reset := errors.AsType[*resetError](f.diverged)
	if !reset && !f.midRepair() && from.Epoch == r.lowest.Epoch && from.Seq < r.highest.Seq {
		before := stretch{lowest: from, highest: r.highest}
		if err := r.catchUp(ctx, &before); err != nil {
			return err
		}
		r.stretch = stretch{before.lowest, before.lowest, before.digest}
	}
	if err := r.compare(ctx); err != nil {
		return err
	}
	if err := r.checkSlots(ctx); err != nil {
		return err
	}
	if err := r.slots(ctx, r.replace); err != nil {
		return err
	}
	if r.lowest != r.highest {
		if err := r.catchUp(ctx, &r.stretch); err != nil {
			return err
		}
	}
	if err := r.repair.Commit(ctx, r.digest); err != nil {
		return fmt.Errorf("%w: commit: %w", errLocal, err)
	}
	return nil
}

func (r *repairing) catchUp(ctx context.Context, s *stretch) error {
	return r.follower.retry(ctx, "repair", func(ctx context.Context) (bool, error) {
		return r.follower.tail(ctx, s, r.repair.Apply)
	})
}

// sums takes the source's sums from r.next on.
func (r *repairing) sums(ctx context.Context) (progress bool, err error) {
	f := r.follower
	d, err := f.source.connect(ctx, PathSums, url.Values{"first": {fmt.Sprint(r.next)}}, f.cfg.Sink.Position())
	if err != nil && r.repair == nil {
		return false, &hopeless{err}
	}
	if err != nil {
		return false, err
	}
	defer d.close()
	if err := r.greet(ctx, d.hello); err != nil {
		return false, err
	}
	err = d.takeSums(func(part *sumsPart) error {
		if int(part.first) != r.next {
			return fmt.Errorf("%w: sums of slots %d to %d where %d was due", errMisplaced, part.first, part.last, r.next)
		}
		if part.head.Cluster != r.cluster || !r.read(&part.head) {
			return errHistory
		}
		for i, sum := range part.sums {
			r.remote[r.next+i], r.at[r.next+i] = sum, part.head.Position.Seq
		}
		r.next, progress = int(part.last)+1, true
		return nil
	})
	if err == nil && r.next != waypost.Slots {
		err = fmt.Errorf("%w: the sums ended at slot %d", errFrame, r.next)
	}
	return progress, err
}

// greet begins the repair at the first hello, and holds later ones against it.
func (r *repairing) greet(ctx context.Context, h Head) error {
	if r.repair != nil {
		// The head may be of another instance, which is a moment behind. The position of
		// each part counts.
		if h.Cluster != r.cluster || h.Position.Epoch != r.lowest.Epoch {
			return errHistory
		}
		return nil
	}
	sink, ok := r.follower.cfg.Sink.(Repairer)
	if !ok {
		return errBeyondRepair
	}
	repair, err := sink.Repair(ctx, h.Cluster, h.Position.Epoch)
	if err != nil {
		return fmt.Errorf("%w: begin: %w", errLocal, err)
	}
	r.repair, r.cluster = repair, h.Cluster
	r.stretch = stretch{h.Position, h.Position, h.Digest}
	r.follower.cfg.Logger.Info("comparing the replica with its source", "reason", reasonOf(r.follower.diverged), "position", r.follower.cfg.Sink.Position())
	return nil
}

// compare finds the slots that differ, and fails when there are too many.
func (r *repairing) compare(ctx context.Context) error {
	local, err := r.repair.Sums(ctx)
	if err == nil {
		err = r.repair.Follow(&r.at, r.lowest)
	}
	if err != nil {
		return fmt.Errorf("%w: compare: %w", errLocal, err)
	}
	var all, differing uint64
	for slot, sum := range r.remote {
		all += sum.Records
		if sum != local[slot] {
			r.differing = append(r.differing, uint16(slot))
			differing += sum.Records
		}
	}
	if n := len(r.differing); n > maxDiffering || differing > max(all/2, worthCounting) {
		return fmt.Errorf("%w: %d slots with %d of %d records differ", errBeyondRepair, n, differing, all)
	}
	r.follower.cfg.Logger.Info("slots of the replica differ from the source's", "slots", len(r.differing), "records", differing)
	return nil
}

// checkSlots lets the sink refuse the slots before any of them is written. They are
// fetched twice only when they could be too few.
func (r *repairing) checkSlots(ctx context.Context) error {
	differing, serving := r.differing, uint64(0)
	err := r.repair.Judge(differing, 0)
	if _, held := errors.AsType[*Held](err); !held {
		return err
	}
	now := time.Now().UnixMilli()
	err = r.slots(ctx, func(_ context.Context, _ *slotsPart, records [][]byte) error {
		for _, raw := range records {
			var record waypost.Record
			if err := DecodeRecord(raw, &record); (err == nil || errors.Is(err, ErrContent)) && Serves(&record, now) {
				serving++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.differing = differing
	return r.repair.Judge(differing, serving)
}

// replace puts a whole range of slots in place.
func (r *repairing) replace(ctx context.Context, part *slotsPart, records [][]byte) error {
	if err := r.repair.Replace(ctx, part.first, part.last, records, part.head.Position.Seq); err != nil {
		return fmt.Errorf("%w: replace slots %d to %d: %w", errLocal, part.first, part.last, err)
	}
	r.replaced, r.records = r.replaced+int(part.last-part.first)+1, r.records+uint64(len(records))
	return nil
}

// takeRange takes a whole range of slots. It is called with the last part of the range
// and all records.
type takeRange func(ctx context.Context, part *slotsPart, records [][]byte) error

// slots fetches all slots that differ.
func (r *repairing) slots(ctx context.Context, take takeRange) error {
	for len(r.differing) > 0 {
		err := r.follower.retry(ctx, "repair", func(ctx context.Context) (bool, error) { return r.someSlots(ctx, take) })
		if err != nil {
			return err
		}
	}
	return nil
}

// someSlots fetches slots that differ, as many as one request takes, and hands them on as
// they come.
func (r *repairing) someSlots(ctx context.Context, take takeRange) (progress bool, err error) {
	f := r.follower
	list, rest := slotList(r.differing)
	d, err := f.source.connect(ctx, PathSnapshot, url.Values{"slots": {list}}, f.cfg.Sink.Position())
	if err != nil {
		return false, err
	}
	defer d.close()
	if err := r.greet(ctx, d.hello); err != nil {
		return false, err
	}
	var records [][]byte
	held := 0
	progress, err = d.takeSlots(func(part *slotsPart, last bool) error {
		n := int(part.last-part.first) + 1
		if len(r.differing)-len(rest) < n || r.differing[0] != part.first || r.differing[n-1] != part.last {
			return fmt.Errorf("%w: slots %d to %d, which were not due", errMisplaced, part.first, part.last)
		}
		for _, raw := range part.records {
			records = append(records, append([]byte(nil), raw...))
			held += len(raw)
		}
		switch {
		case held > maxSlot:
			return fmt.Errorf("%w: %w: slots %d to %d are too large", errLocal, errBeyondRepair, part.first, part.last)
		case !last:
			return nil
		case part.head.Cluster != r.cluster || !r.read(&part.head):
			return errHistory
		}
		if err := take(ctx, part, records); err != nil {
			return err
		}
		r.differing = r.differing[n:]
		records, held = nil, 0
		return nil
	})
	if err == nil && len(r.differing) != len(rest) {
		err = fmt.Errorf("%w: the snapshot ended before all slots had come", errFrame)
	}
	return progress, err
}
