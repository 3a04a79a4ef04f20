package clicks

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// keeperState is the keeper's own. Before it starts, and once it has ended, it is that of
// whoever opens or seals the journal.
type keeperState struct {
	sums    *totals   // of the batch that is being made
	buf     []byte    // what was read of a segment
	failing bool      // the last batch could not be fixed
	dropped uint64    // of which the log knows
	told    time.Time // when it was told
}

// keepSegments is the keeper: it makes batches of what was recorded, and sees to it
// that what is in none is on the disk.
func (j *Journal) keepSegments() {
	flush := time.NewTicker(j.cfg.FlushInterval)
	defer flush.Stop()
	syncs := time.NewTicker(j.cfg.SyncInterval)
	defer syncs.Stop()
	j.flush(false)
	for {
		select {
		case <-j.stop:
			return
		case <-flush.C:
			j.flush(j.due())
			j.tellDrops()
		case <-syncs.C:
			j.syncSegments()
		}
	}
}

// flush makes batches of what earlier boots left, and of what this one has when that
// is due.
func (j *Journal) flush(due bool) {
	before := j.counts.batches.Load()
	err := j.fixLeftovers()
	if due {
		err = errors.Join(err, j.exhaust(j.current))
	}
	switch {
	case err != nil:
		j.fixFailed(err)
	case j.keeper.failing && j.counts.batches.Load() > before:
		j.keeper.failing = false
		j.hold.Store(false)
		j.signal(j.freed)
		j.log.Info("batches of clicks can be made again")
	}
}

// due reports whether the current boot should have another batch: while one waits,
// clicks gather in the segments until one of these is full, so that an edge that is
// cut off for long keeps totals and not a trickle of batches.
func (j *Journal) due() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.current.waiting) == 0 || slices.ContainsFunc(j.current.segments, func(s *segment) bool { return s.done.Load() })
}

// fixLeftovers makes batches of what earlier boots left.
func (j *Journal) fixLeftovers() error {
	var errs []error
	for _, l := range j.leftovers() {
		errs = append(errs, j.exhaust(l))
	}
	return errors.Join(errs...)
}

// leftovers gives the lanes of earlier boots that still have segments, or are over.
func (j *Journal) leftovers() []*lane {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []*lane
	for _, l := range j.lanes {
		if l != j.current && (len(l.segments) > 0 || len(l.waiting) == 0) {
			out = append(out, l)
		}
	}
	return out
}

// exhaust makes as many batches of a lane as it takes.
func (j *Journal) exhaust(l *lane) error {
	for {
		more, err := j.fix(l)
		if err != nil || !more {
			return err
		}
	}
}

// fixFailed says, once, that batches cannot be made. A disk that is full gets back
// the space of the spare segment, which a batch needs far less of.
func (j *Journal) fixFailed(err error) {
	j.counts.diskErrors.Add(1)
	if !j.keeper.failing {
		j.keeper.failing = true
		j.log.Error("a batch of clicks could not be made: its clicks stay in the journal", slog.Any("error", err))
	}
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return
	}
	j.hold.Store(true)
	select {
	case s := <-j.spares:
		s.done.Store(true)
		j.mu.Lock()
		j.retire(j.current, s)
		j.mu.Unlock()
	default:
	}
}

// tellDrops logs, at most once a second, that clicks were dropped.
func (j *Journal) tellDrops() {
	now, dropped := time.Now(), j.dropped.Load()
	if dropped == j.keeper.dropped || now.Sub(j.keeper.told) < time.Second {
		return
	}
	j.log.Error("clicks were dropped: there is no room for them", slog.Uint64("clicks", dropped-j.keeper.dropped), slog.Uint64("total", dropped))
	j.keeper.dropped, j.keeper.told = dropped, now
}

// syncSegments puts on the disk what is in no batch. A segment for which that fails
// is never synced again, because the system would then claim that all is well; nothing
// more is recorded to it, and its clicks go into a batch, in a file of its own.
func (j *Journal) syncSegments() {
	j.mu.Lock()
	segments := slices.Clone(j.current.segments)
	j.mu.Unlock()
	for _, s := range segments {
		tail := s.tail.Load()
		if tail <= max(s.covered, s.synced) || s.unsound {
			continue
		}
		if err := j.cfg.disk.sync(s.file); err != nil {
			j.diskFailed("a segment of the click journal could not be synced", err)
			s.unsound = true
			for i := range j.shards {
				j.shards[i].giveUp(s)
			}
			continue
		}
		s.synced = tail
	}
}
