package clicks

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errQuota = errors.New("the click journal is as large as it may be")
	errHeld  = errors.New("the disk is full")
)

// spares has the next segments ready before those in use are full, so that recording
// makes no system call. It reuses segments once all their clicks are in batches: see
// segment.go.
type spares struct {
	*base
	catalog   *catalog
	retention *retention

	ready chan *segment
	takes atomic.Uint64 // of ready segments
	held  atomic.Bool   // the disk is full: no spares

	room int64 // free bytes when measured, minus the files reused since; run's goroutine owns it

	mu struct {
		sync.Mutex
		reusable []*segment
		likely   int // how many of them are likely to be used soon
	}
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
// as many more as were taken in a second, minus the reusable ones. A small number of
// segments stays in the processor's cache.
func (s *spares) run() {
	const pause = time.Second
	recent := rate{began: time.Now()}
	for {
		more := max(int(recent.of(s.takes.Load(), time.Now()))-s.reusable(), 0)
		wanted := min(s.cfg.Shards+more, cap(s.ready))
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
	old := s.reuse()
	if err := s.allow(second, old != nil); err != nil {
		if old != nil {
			err = errors.Join(err, s.dir.discard(old))
		}
		return nil, err
	}
	current := s.catalog.current
	number := s.catalog.nextSegment()
	if old != nil {
		seg, err = s.dir.reuse(old, current.node, number)
	} else {
		seg, err = createSegment(s.dir, current.boot, current.node, number, s.cfg.SegmentBytes)
	}
	if err != nil {
		return nil, err
	}
	// The number counts only now that the file is there: a checkpoint that knew the number,
	// and not the segment, would say that all of it is covered.
	s.catalog.addSegment(seg)
	return seg, nil
}

// allow reports whether the bounds allow another segment. It reserves the room of one
// more segment for batches, and some for compaction. A reused file takes no more room
// itself, but its clicks may be in a compacted segment now, which is about as large at
// most. So the directory is not measured for it until the room that was free could be
// used up.
func (s *spares) allow(second, reused bool) error {
	plenty := s.cfg.MaxBytes / 4
	if s.room -= s.cfg.SegmentBytes; reused && s.room > plenty {
		return nil
	}
	used, err := s.dir.used()
	if err != nil {
		return fmt.Errorf("measure the click journal: %w", err)
	}
	s.room = s.cfg.MaxBytes - s.cfg.MaxBytes/compactionReserve - 2*s.cfg.SegmentBytes - used
	if reused {
		s.room += s.cfg.SegmentBytes
	}
	if second && s.room <= plenty {
		return errQuota
	}
	if s.room < 0 && s.retention.makeRoom(-s.room) < -s.room {
		s.compacted.set() // compacted segments could perhaps be smaller
		return errQuota
	}
	return nil
}

// release removes the ready segments, which frees their space on a full disk.
func (s *spares) release() {
	s.keepReusable(0)
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

// offer keeps a segment to be reused, if that is likely to be soon.
func (s *spares) offer(seg *segment) bool {
	select {
	case <-s.stop:
		return false
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fit := seg.mem != nil && !seg.damaged && !seg.unsound && !seg.bad.Load()
	if !fit || s.held.Load() || len(s.mu.reusable) >= s.mu.likely {
		return false
	}
	s.mu.reusable = append(s.mu.reusable, seg)
	s.freed.set()
	return true
}

// reuse takes a reusable segment, and returns nil without one.
func (s *spares) reuse() *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.mu.reusable) - 1
	if n < 0 {
		return nil
	}
	seg := s.mu.reusable[n]
	s.mu.reusable = s.mu.reusable[:n]
	return seg
}

// reusable counts the segments that wait to be reused.
func (s *spares) reusable() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.reusable)
}

// keepReusable sets how many segments are kept to be reused, and removes the others.
func (s *spares) keepReusable(n int) {
	s.mu.Lock()
	s.mu.likely = n
	var over []*segment
	if len(s.mu.reusable) > n {
		over, s.mu.reusable = slices.Clone(s.mu.reusable[n:]), s.mu.reusable[:n]
	}
	s.mu.Unlock()
	for _, seg := range over {
		if err := s.dir.discard(seg); err != nil {
			s.diskFailed("cannot remove a segment of the click journal", err)
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

// reuseFor is for how long segments are kept to be reused, as many as were taken in a
// second.
const reuseFor = 30 * time.Second

// peak is the maximum of a figure within a time.
type peak struct {
	most uint64
	at   time.Time
}

// of returns the maximum including another figure.
func (p *peak) of(n uint64, now time.Time, within time.Duration) uint64 {
	if n >= p.most || now.Sub(p.at) > within {
		p.most, p.at = n, now
	}
	return p.most
}
