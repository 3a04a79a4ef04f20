package clicks

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// fixer is what batches and folds are made with. Whoever holds it makes them: the keeper;
// once it has ended, whoever seals the journal or ships what is left; and the merger, to put
// a fold in the place of others.
type fixer struct {
	sums     *tally // of what is being made
	buf      []byte // what was read of a segment
	plain    []byte // a batch
	packed   []byte // the same, compressed
	file     []byte // and with what is around it
	reported uint64 // dropped clicks of which batches have told
}

// keepSegments is the keeper: it makes batches and folds of what was recorded, and sees
// to it that what is in none is on the disk.
func (j *Journal) keepSegments() {
	flush := time.NewTicker(j.cfg.FlushInterval)
	defer flush.Stop()
	syncs := time.NewTicker(max(j.cfg.SyncInterval/2, 1))
	defer syncs.Stop()
	k := keeper{j: j, lately: pace{began: time.Now()}}
	k.flush(false)
	for {
		select {
		case <-j.stop:
			return
		case <-j.turn:
			k.flush(false)
		case <-flush.C:
			k.flush(true)
			k.tellDrops()
		case <-syncs.C:
			select {
			case <-flush.C: // first, since what is in a batch need not be synced
				k.flush(true)
				k.tellDrops()
			default:
			}
			j.syncSegments(false)
		}
	}
}

// keeper is the keeper's own state.
type keeper struct {
	j       *Journal
	failing bool // the last batch could not be made
	lately  pace // of segments
	most    peak
	dropped uint64    // of which the log knows
	told    time.Time // when it was told
}

// flush tends all lanes. Due says that what was recorded just now should become a
// batch, too, unless one waits.
func (k *keeper) flush(due bool) {
	j := k.j
	before := j.counts.batches.Load()
	j.fixing.Lock()
	err := j.tendAll(due)
	if due {
		j.tidy(time.Now())
	}
	j.fixing.Unlock()
	if due {
		now := time.Now()
		j.discardWorn(min(int(k.most.of(k.lately.of(j.takes.Load(), now), now, j.cfg.wearing)), cap(j.spares)))
	}
	switch {
	case err != nil:
		k.failed(err)
	case k.failing && j.counts.batches.Load() > before:
		k.failing = false
		j.hold.Store(false)
		j.signal(j.freed)
		j.log.Info("batches of clicks can be made again")
	}
}

// tendAll tends all lanes. The fixer is held.
func (j *Journal) tendAll(due bool) error {
	j.mu.Lock()
	lanes := slices.Clone(j.lanes)
	j.mu.Unlock()
	var errs []error
	for _, l := range lanes {
		errs = append(errs, j.tend(l, due))
	}
	return errors.Join(errs...)
}

// failed says, once, that batches cannot be made. A disk that is full gets back the space
// of the spare segments, which a batch needs far less of.
func (k *keeper) failed(err error) {
	j := k.j
	j.counts.diskErrors.Add(1)
	if !k.failing {
		k.failing = true
		j.log.Error("a batch of clicks could not be made: its clicks stay in the journal", slog.Any("error", err))
	}
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return
	}
	j.hold.Store(true)
	j.discardWorn(0)
	for {
		select {
		case s := <-j.spares:
			s.done.Store(true)
			j.mu.Lock()
			j.retire(j.current, s)
			j.mu.Unlock()
		default:
			return
		}
	}
}

// tellDrops logs, at most once a second, that clicks were dropped.
func (k *keeper) tellDrops() {
	now, dropped := time.Now(), k.j.dropped.Load()
	if dropped == k.dropped || now.Sub(k.told) < time.Second {
		return
	}
	k.j.log.Error("clicks were dropped: there is no room for them", slog.Uint64("clicks", dropped-k.dropped), slog.Uint64("total", dropped))
	k.dropped, k.told = dropped, now
}

// syncSegments puts on the disk what is in no batch, and was there the last time already, or all of it:
// as long as batches are made more often, that is nothing. A segment for which that fails
// is never synced again, because the system would then claim that all is well; nothing
// more is recorded to it, and its clicks go into a batch, in a file of its own.
func (j *Journal) syncSegments(all bool) {
	j.mu.Lock()
	segments := slices.Clone(j.current.segments)
	j.mu.Unlock()
	for _, s := range segments {
		tail, due := s.tail.Load(), s.seen
		s.seen = tail
		if all {
			due = tail
		}
		if due <= max(s.covered, s.synced) || s.unsound {
			continue
		}
		err := j.cfg.disk.sync(s.file)
		if err != nil {
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
