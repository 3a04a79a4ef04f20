package replication

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"waypost"
)

// resumes is how often in a row a snapshot goes on after a cut that brought
// nothing, before it is given up.
const resumes = 5

// snapshot fills a fresh replica and swaps it in.
func (f *Follower) snapshot(ctx context.Context) (fruitful bool, err error) {
	begun := time.Now()
	f.noteRestoring(true)
	defer f.noteRestoring(false)
	r := restoring{follower: f, until: waypost.Slots}
	err = r.run(ctx)
	if r.restore != nil { // a source that cannot be reached costs it nothing
		f.paced(begun)
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
	f.noteSnapshot(p)
	f.cfg.Logger.Info("the snapshot serves", "position", p, "records", r.count, "took", time.Since(begun))
	return true, nil
}

// pace waits until the next repair or snapshot may begin. Each one
// that soon follows another waits twice as long, because a source and a replica
// that never agree must not eat the network.
func (f *Follower) pace(ctx context.Context) error {
	if !f.snapshotAt.IsZero() && time.Since(f.snapshotAt) > 2*f.cfg.SnapshotBackoffMax {
		f.snapshotPause = 0 // the last one held
	}
	if f.snapshotPause > 0 {
		return sleep(ctx, jitter(f.snapshotPause)-time.Since(f.snapshotAt))
	}
	return nil
}

// paced notes that one has begun.
func (f *Follower) paced(begun time.Time) {
	f.snapshotAt = begun
	f.snapshotPause = min(max(2*f.snapshotPause, f.cfg.SnapshotBackoffMin), f.cfg.SnapshotBackoffMax)
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
	until    int    // where those end that are taken now
	reads    []read // of the slots held, in order

	resumedWhole bool   // an earlier process has taken all slots
	count        uint64 // records received
	// Every slot was read at or after lowest, the head of the first hello.
	stretch
	cluster Cluster
}

// stretch is a part of the changelog that slots need which were read at its positions:
// it begins at the lowest of them and must go past highest.
type stretch struct {
	lowest, highest waypost.Position
	digest          uint64 // at highest, then at the tail's end
}

// read takes in that slots were read at a position; false when it is not of the
// stretch's history.
func (s *stretch) read(h *Head) bool {
	at := h.Position
	if at.Epoch != s.lowest.Epoch || at.Seq < s.lowest.Seq || at.Seq == s.lowest.Seq && at != s.lowest {
		return false
	}
	if at.Seq > s.highest.Seq {
		s.highest, s.digest = at, h.Digest
	}
	return true
}

func (r *restoring) run(ctx context.Context) (err error) {
	defer func() {
		if r.restore == nil {
			return
		}
		if endErr := r.end(ctx, err); endErr != nil {
			err = errors.Join(err, fmt.Errorf("end it: %w", endErr))
		}
	}()
	if err := r.persist(ctx, r.slots); err != nil {
		return err
	}
	if err := r.reach(ctx); err != nil {
		return err
	}
	if err := r.restore.Begin(ctx, r.lowest, r.highest); err != nil {
		return fmt.Errorf("%w: begin the tail: %w", errLocal, err)
	}
	if r.lowest != r.highest {
		tail := func(ctx context.Context) (bool, error) { return r.follower.tail(ctx, &r.stretch, r.restore.Apply) }
		if err := r.persist(ctx, tail); err != nil {
			return err
		}
	}
	if err := r.restore.Commit(ctx, r.digest); err != nil {
		return fmt.Errorf("%w: commit: %w", errLocal, err)
	}
	return nil
}

// end keeps what was taken when only the connection, this process, or the room on the disk has come to an end, or it is
// held back.
func (r *restoring) end(ctx context.Context, err error) error {
	_, reset := errors.AsType[*resetError](err)
	_, held := errors.AsType[*Held](err)
	lost := !held && !errors.Is(err, ErrNoRoom) && (reset || errors.Is(err, errLocal) || errors.Is(err, errHistory))
	if ctx.Err() != nil || !lost {
		return r.restore.Suspend()
	}
	return r.restore.Abort()
}

// errLocal marks an error of the replica, which another connection cannot heal.
var errLocal = errors.New("the replica")

// persist repeats a step of a snapshot.
func (r *restoring) persist(ctx context.Context, step func(context.Context) (bool, error)) error {
	return r.follower.persist(ctx, "snapshot", func(ctx context.Context) (bool, error) {
		progress, err := step(ctx)
		if err != nil && r.restore == nil {
			err = &hopeless{err} // the source cannot be reached: nothing was begun
		}
		return progress, err
	})
}

// byePause is the longest pause after a source has ended a snapshot in favour of others.
const byePause = 2 * time.Second

// hopeless is an error that trying the same again does not heal.
type hopeless struct{ error }

func (e *hopeless) Unwrap() error { return e.error }

// persist repeats a step that a cut connection may have ended, as long as it gets
// on.
func (f *Follower) persist(ctx context.Context, what string, step func(context.Context) (bool, error)) error {
	for idle := 0; ; {
		progress, err := step(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if never, ok := errors.AsType[*hopeless](err); ok {
			return never.error
		}
		if _, reset := errors.AsType[*resetError](err); reset || errors.Is(err, errLocal) || errors.Is(err, errHistory) {
			return err
		}
		if progress {
			idle = 0
		}
		if idle++; idle > resumes && !errors.Is(err, errBusy) {
			return err
		}
		f.cfg.Logger.Warn("the "+what+" was cut; going on", "error", err)
		pause := min(f.cfg.BackoffMin<<min(idle-1, 16), f.cfg.BackoffMax)
		if errors.Is(err, errBye) { // others get as good a chance as this one
			pause = max(pause, byePause)
		}
		if err := sleep(ctx, jitter(pause)); err != nil {
			return err
		}
	}
}

// errHistory says that the parts of a snapshot are not of one history.
var errHistory = errors.New("the source changed its history during the snapshot")

// takeSlots hands on the slots that come on a connection, until its end. There is
// progress once a range is complete.
func (f *Follower) takeSlots(d *dial, take func(part *slotsPart, last bool) error) (progress bool, err error) {
	var part slotsPart
	received := uint64(0)
	for {
		t, flags, payload, err := d.next()
		if err != nil {
			return progress, err
		}
		switch t {
		case frameHeartbeat:
			if _, err := f.takeHeartbeat(d, payload); err != nil {
				return progress, err
			}
		case frameSlots:
			if err := decodeSlots(payload, &part); err != nil {
				return progress, err
			}
			last := flags&flagLastPart != 0
			if err := take(&part, last); err != nil {
				return progress, err
			}
			received += uint64(len(part.records))
			progress = progress || last
		case frameEnd:
			stated, err := decodeEnd(payload)
			if err == nil && stated != received {
				err = fmt.Errorf("%w: the snapshot ended after %d records of %d", errFrame, received, stated)
			}
			return progress, err
		default:
			return progress, fmt.Errorf("%w: a %s in a snapshot", errFrame, t)
		}
	}
}

// tail applies a stretch of the changelog; what of it is applied is taken off.
func (f *Follower) tail(ctx context.Context, s *stretch, apply func(context.Context, *Batch) error) (progress bool, err error) {
	p := s.lowest
	d, err := f.connect(ctx, PathStream, url.Values{"after": {p.String()}}, f.cfg.Sink.Position())
	if err != nil {
		return false, err
	}
	defer d.close()
	var b Batch
	for p.Seq < s.highest.Seq {
		t, _, payload, err := d.next()
		if err != nil {
			return progress, err
		}
		switch t {
		case frameHeartbeat:
			if _, err := f.takeHeartbeat(d, payload); err != nil {
				return progress, err
			}
		case frameBatch:
			if err := f.applyBatch(ctx, d, payload, &b, p, apply); err != nil {
				if errors.Is(err, errMisplaced) || errors.Is(err, errFrame) || errors.Is(err, ErrSignature) {
					return progress, err
				}
				return progress, fmt.Errorf("%w: %w", errLocal, err)
			}
			p = b.Last()
			s.lowest, s.digest = p, b.Transactions[len(b.Transactions)-1].Digest
			progress = true
		case frameAsk: // what is not whole yet has no position to tell
		default:
			return progress, fmt.Errorf("%w: a %s on the stream", errFrame, t)
		}
	}
	return progress, nil
}
