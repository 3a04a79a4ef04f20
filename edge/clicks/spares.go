package clicks

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

var (
	errQuota = errors.New("the click journal is as large as it may be")
	errHeld  = errors.New("the disk is full")
)

// spares has the next segments ready before those in use are full, so that recording
// makes no system call.
type spares struct {
	*base
	catalog   *catalog
	retention *retention

	ready chan *segment
	takes atomic.Uint64 // of ready segments
	held  atomic.Bool   // the disk is full: no spares
}

func newSpares(b *base) *spares {
	// At most 32, and a sixteenth of the quota.
	most := min(max(b.cfg.MaxBytes/b.cfg.SegmentBytes/16, 1), 32)
	return &spares{base: b, ready: make(chan *segment, most)}
}

// takeSegment returns a ready segment, or nil while no segment is ready.
func (s *spares) takeSegment() *segment {
	select {
	case seg := <-s.ready:
		s.takes.Add(1)
		s.taken.set()
		return seg
	default:
		return nil
	}
}

// run keeps one segment ready for each shard, because they fill up at the same time, and
// as many more as were taken in a second.
func (s *spares) run() {
	const pause = time.Second
	recent := rate{began: time.Now()}
	for {
		wanted := min(s.cfg.Shards+int(recent.of(s.takes.Load(), time.Now())), cap(s.ready))
		if len(s.ready) >= wanted {
			select {
			case <-s.taken:
			case <-s.freed: // the batcher may have removed them
			case <-s.stop:
				return
			}
			continue
		}
		seg, err := s.newSegment(len(s.ready) > 0)
		if err != nil {
			if !errors.Is(err, errQuota) && !errors.Is(err, errHeld) {
				s.diskFailed("cannot make a segment of the click journal", err)
			}
			select {
			case <-time.After(pause):
			case <-s.taken:
			case <-s.freed:
			case <-s.stop:
				return
			}
			continue
		}
		s.ready <- seg // which has room: this goroutine alone fills it
	}
}

// newSegment adds a segment to the current boot, if the bounds allow it. A second spare
// one is not worth any file that would make room for it. There is one caller at a time.
func (s *spares) newSegment(second bool) (seg *segment, err error) {
	if s.held.Load() {
		return nil, errHeld
	}
	if err := s.allow(second); err != nil {
		return nil, err
	}
	current := s.catalog.current
	seg, err = createSegment(s.dir, current.boot, current.node, s.catalog.nextSegment(), s.cfg.SegmentBytes)
	if err != nil {
		return nil, err
	}
	// The number counts only now that the file is there: a checkpoint that knew the number,
	// and not the segment, would say that all of it is covered.
	s.catalog.addSegment(seg)
	return seg, nil
}

// allow reports whether the bounds allow another segment. It reserves the room of one
// more segment for batches, and some for compaction.
func (s *spares) allow(second bool) error {
	used, err := s.dir.used()
	if err != nil {
		return fmt.Errorf("measure the click journal: %w", err)
	}
	room := s.cfg.MaxBytes - s.cfg.MaxBytes/compactionReserve - 2*s.cfg.SegmentBytes - used
	if second && room <= s.cfg.MaxBytes/4 {
		return errQuota
	}
	if room < 0 && s.retention.makeRoom(-room) < -room {
		s.compacted.set() // compacted segments could perhaps be smaller
		return errQuota
	}
	return nil
}

// release removes the ready segments, which frees their space on a full disk.
func (s *spares) release() {
	for {
		select {
		case seg := <-s.ready:
			seg.done.Store(true)
			s.catalog.retireSpare(seg)
		default:
			return
		}
	}
}

// rate counts events in a second.
type rate struct {
	began        time.Time
	before, last uint64
}

// of returns the number of events in the last full second, or in this one if it has more
// already. Total counts all events until now.
func (r *rate) of(total uint64, now time.Time) uint64 {
	if now.Sub(r.began) > time.Second {
		r.began, r.before, r.last = now, total, total-r.before
	}
	return max(r.last, total-r.before)
}
