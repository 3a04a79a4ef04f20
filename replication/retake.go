package replication

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sort"

	"waypost"
)

// read is a range of slots that was read at a position.
type read struct {
	first int
	at    waypost.Position
}

// noteRead notes the position at which the slots from first on were read.
func (r *restoring) noteRead(first int, at waypost.Position) {
	i, _ := slices.BinarySearchFunc(r.reads, first, func(o read, first int) int { return o.first - first })
	j := i
	for j < len(r.reads) && r.reads[j].first < r.next {
		j++
	}
	r.reads = slices.Replace(r.reads, i, j, read{first, at})
}

// takenAgain bounds how often slots of one snapshot are taken again before it begins
// again.
const takenAgain = 3

// reach ensures that the log reaches back to the beginning of the tail. When the log was
// trimmed beyond that while slots were taken, the slots that were read before its
// present beginning are taken again.
func (r *restoring) reach(ctx context.Context) error {
	for times := 0; !r.resumedWhole && r.lowest != r.highest; times++ {
		why, err := r.trimmed(ctx, r.lowest)
		if err != nil || why == nil {
			return err
		}
		again, ok := r.restore.(Retaker)
		if !ok || times == takenAgain {
			return why
		}
		lowest, err := r.reachable(ctx)
		if err != nil {
			return err
		}
		before := r.readBefore(lowest)
		if before == 0 && lowest != r.highest { // nothing was read where the log is gone
			r.lowest = lowest
			continue
		}
		if before == 0 || before == waypost.Slots {
			return why
		}
		if before, err = again.Again(ctx, before); err != nil {
			return fmt.Errorf("%w: take slots again: %w", errLocal, err)
		}
		if before = r.rangeAt(before); before == waypost.Slots {
			return why
		}
		r.follower.cfg.Logger.Warn("taking slots again, because the log was trimmed during the snapshot", "before", before, "lowest", lowest)
		r.lowest, r.next, r.until = lowest, 0, before
		if err := r.retry(ctx, r.slots); err != nil {
			return err
		}
		r.next, r.until = waypost.Slots, waypost.Slots
		if err := r.restore.Keep(ctx, Progress{r.next, r.lowest, r.highest, r.digest}); err != nil {
			return fmt.Errorf("%w: keep all slots: %w", errLocal, err)
		}
	}
	return nil
}

// reachable finds the lowest position at which slots were read and to which the log still
// reaches back; zero: no such position.
func (r *restoring) reachable(ctx context.Context) (found waypost.Position, err error) {
	var at []waypost.Position
	for _, o := range r.reads {
		at = append(at, o.at)
	}
	slices.SortFunc(at, func(a, b waypost.Position) int { return int(int64(a.Seq - b.Seq)) })
	at = slices.Compact(at)
	i := sort.Search(len(at), func(i int) bool {
		if err != nil {
			return true
		}
		var trimmed *resetError
		trimmed, err = r.trimmed(ctx, at[i])
		return trimmed == nil
	})
	if err != nil || i == len(at) {
		return waypost.Position{}, err
	}
	return at[i], nil
}

// readBefore returns the slot from which on all slots were read at p or later. Without
// such a slot it returns waypost.Slots, and all are taken again.
func (r *restoring) readBefore(p waypost.Position) int {
	i := len(r.reads)
	if p.IsZero() {
		return waypost.Slots
	}
	for i > 0 && r.reads[i-1].at.Seq >= p.Seq {
		i--
	}
	if i == len(r.reads) {
		return waypost.Slots
	}
	return r.reads[i].first
}

// rangeAt returns the first slot, from slot on, with which a range began.
func (r *restoring) rangeAt(slot int) int {
	for _, o := range r.reads {
		if o.first >= slot {
			return o.first
		}
	}
	return waypost.Slots
}

// trimmed asks whether the log still reaches back to a position: nil when it does.
func (r *restoring) trimmed(ctx context.Context, p waypost.Position) (why *resetError, err error) {
	err = r.retry(ctx, func(ctx context.Context) (bool, error) {
		d, err := r.follower.source.connect(ctx, PathStream, url.Values{"after": {p.String()}}, r.follower.cfg.Sink.Position())
		if err != nil {
			return false, err
		}
		defer d.close()
		for {
			t, _, payload, err := d.next()
			if reset, ok := errors.AsType[*resetError](err); ok && reset.reason == ResetTrimmed {
				why = reset
				return true, nil
			}
			if err != nil || t == frameBatch {
				return err == nil, err
			}
			if t == frameHeartbeat { // at the head, nothing comes; an older one says nothing about the log
				h, err := decodeHeartbeat(payload)
				if err != nil || h.Position == p && p.Seq >= r.highest.Seq {
					return err == nil, err
				}
			}
		}
	})
	return why, err
}
