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

// resumes is how often in a row a snapshot goes on after a cut that brought
// nothing, before it is given up.
const resumes = 5

// snapshot fills a fresh replica and swaps it in. Snapshots are paced: each one
// that soon follows another waits twice as long, because a source and a replica
// that never agree must not eat the network.
func (f *Follower) snapshot(ctx context.Context) (fruitful bool, err error) {
	if !f.snapshotAt.IsZero() && time.Since(f.snapshotAt) > 2*f.cfg.SnapshotBackoffMax {
		f.snapshotPause = 0 // the last one held
	}
	if f.snapshotPause > 0 {
		if err := sleep(ctx, jitter(f.snapshotPause)-time.Since(f.snapshotAt)); err != nil {
			return false, err
		}
	}
	begun := time.Now()
	f.noteRestoring(true)
	defer f.noteRestoring(false)
	r := restoring{follower: f}
	err = r.run(ctx)
	if r.restore != nil { // a source that cannot be reached costs it nothing
		f.snapshotAt = begun
		f.snapshotPause = min(max(2*f.snapshotPause, f.cfg.SnapshotBackoffMin), f.cfg.SnapshotBackoffMax)
	}
	if err != nil {
		return false, fmt.Errorf("take a snapshot: %w", err)
	}
	f.diverged = nil
	p := f.cfg.Sink.Position()
	f.noteSnapshot(p)
	f.cfg.Logger.Info("the snapshot serves", "position", p, "records", r.count, "took", time.Since(begun))
	return true, nil
}

func reasonOf(err error) string {
	if err == nil {
		return "the replica is empty"
	}
	return err.Error()
}

// restoring is one snapshot under way.
type restoring struct {
	follower *Follower
	restore  Restore
	next     int    // the first slot not yet held
	count    uint64 // records received
	// Every slot was read at or after lowest, the head of the first hello, so the
	// tail begins there; it must go past highest, where the last slot was read.
	lowest, highest waypost.Position
	digest          uint64 // at highest, then at the tail's end
	cluster         Cluster
}

func (r *restoring) run(ctx context.Context) (err error) {
	defer func() {
		if r.restore == nil {
			return
		}
		if abortErr := r.restore.Abort(); abortErr != nil {
			err = errors.Join(err, fmt.Errorf("abort: %w", abortErr))
		}
	}()
	if err := r.persist(ctx, r.slots); err != nil {
		return err
	}
	if err := r.restore.Begin(r.lowest, r.highest); err != nil {
		return fmt.Errorf("begin the tail: %w", err)
	}
	if r.lowest != r.highest {
		if err := r.persist(ctx, r.tail); err != nil {
			return err
		}
	}
	if err := r.restore.Commit(ctx, r.digest); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// errLocal marks an error of the replica, which another connection cannot heal.
var errLocal = errors.New("the fresh replica")

// persist repeats a step that a cut connection may have ended, as long as it gets
// on.
func (r *restoring) persist(ctx context.Context, step func(context.Context) (bool, error)) error {
	for idle := 0; ; {
		progress, err := step(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if _, reset := errors.AsType[*resetError](err); reset || r.restore == nil ||
			errors.Is(err, errLocal) || errors.Is(err, errHistory) {
			return err
		}
		if progress {
			idle = 0
		}
		if idle++; idle > resumes {
			return err
		}
		r.follower.cfg.Logger.Warn("the snapshot was cut; going on", "error", err, "slot", r.next)
		wait := min(r.follower.cfg.BackoffMin<<(idle-1), r.follower.cfg.BackoffMax)
		if err := sleep(ctx, jitter(wait)); err != nil {
			return err
		}
	}
}

// errHistory says that the parts of a snapshot are not of one history.
var errHistory = errors.New("the source changed its history during the snapshot")

// slots takes slots from r.next on.
func (r *restoring) slots(ctx context.Context) (progress bool, err error) {
	f := r.follower
	d, err := f.connect(ctx, PathSnapshot, url.Values{"first": {strconv.Itoa(r.next)}}, f.cfg.Sink.Position())
	if err != nil {
		return false, err
	}
	defer d.close()
	if err := r.greet(ctx, d.hello); err != nil {
		return false, err
	}
	var part slotsPart
	received := uint64(0)
	for {
		t, flags, payload, err := d.next()
		if err != nil {
			return progress, err
		}
		switch t {
		case frameHeartbeat:
			h, err := decodeHeartbeat(payload)
			if err != nil {
				return progress, err
			}
			f.noteHead(h)
		case frameSlots:
			if err := decodeSlots(payload, &part); err != nil {
				return progress, err
			}
			if err := r.take(ctx, &part, flags&flagLastPart != 0); err != nil {
				return progress, err
			}
			received += uint64(len(part.records))
			progress = progress || flags&flagLastPart != 0
		case frameEnd:
			stated, err := decodeEnd(payload)
			if err == nil && (stated != received || r.next != waypost.Slots) {
				err = fmt.Errorf("%w: the snapshot ended at slot %d after %d records of %d", errFrame, r.next, received, stated)
			}
			return progress, err
		default:
			return progress, fmt.Errorf("%w: a %s in a snapshot", errFrame, t)
		}
	}
}

// greet begins the restore at the first hello, and holds later ones against it.
func (r *restoring) greet(ctx context.Context, h Head) error {
	if r.restore == nil {
		restore, err := r.follower.cfg.Sink.Restore(ctx, h.Cluster)
		if err != nil {
			return fmt.Errorf("%w: begin: %w", errLocal, err)
		}
		r.restore, r.cluster = restore, h.Cluster
		r.lowest, r.highest, r.digest = h.Position, h.Position, h.Digest
		f := r.follower
		f.cfg.Logger.Info("taking a snapshot", "reason", reasonOf(f.diverged), "position", f.cfg.Sink.Position())
		return nil
	}
	if h.Cluster != r.cluster || h.Position.Epoch != r.lowest.Epoch {
		return errHistory
	}
	if h.Position.Seq < r.lowest.Seq { // another server, which is a little behind
		r.lowest = h.Position
	}
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
	at := part.head.Position
	if part.head.Cluster != r.cluster || at.Epoch != r.lowest.Epoch || at.Seq < r.lowest.Seq ||
		at.Seq == r.lowest.Seq && at != r.lowest {
		return errHistory
	}
	if at.Seq > r.highest.Seq {
		r.highest, r.digest = at, part.head.Digest
	}
	r.next = int(part.last) + 1
	return nil
}

// tail applies the changelog from where the fresh replica is until it is past
// highest.
func (r *restoring) tail(ctx context.Context) (progress bool, err error) {
	f := r.follower
	p := r.lowest
	d, err := f.connect(ctx, PathStream, url.Values{"after": {p.String()}}, f.cfg.Sink.Position())
	if err != nil {
		return false, err
	}
	defer d.close()
	var b Batch
	for p.Seq < r.highest.Seq {
		t, _, payload, err := d.next()
		if err != nil {
			return progress, err
		}
		switch t {
		case frameHeartbeat:
			h, err := decodeHeartbeat(payload)
			if err != nil {
				return progress, err
			}
			f.noteHead(h)
		case frameBatch:
			if err := f.applyBatch(ctx, payload, &b, p, r.restore.Apply); err != nil {
				if errors.Is(err, errMisplaced) || errors.Is(err, errFrame) {
					return progress, err
				}
				return progress, fmt.Errorf("%w: %w", errLocal, err)
			}
			p = b.Last()
			r.lowest, r.digest = p, b.Transactions[len(b.Transactions)-1].Digest
			progress = true
		case frameAsk: // the fresh replica does not serve yet
		default:
			return progress, fmt.Errorf("%w: a %s on the stream", errFrame, t)
		}
	}
	return progress, nil
}
