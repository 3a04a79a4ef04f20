package clicks

import (
	"errors"
	"fmt"
	"time"
)

var (
	errQuota = errors.New("the click journal is as large as it may be")
	errHeld  = errors.New("the disk is full")
)

// mostSpares bounds how many segments are ready: 32, and a sixteenth of the quota.
func mostSpares(c *Config) int { return int(min(max(c.MaxBytes/c.SegmentBytes/16, 1), 32)) }

// makeSegments is the maker: it has the next segments ready before those in use are
// full, one for each shard, since they fill up at the same time, and as many as were taken in a second, less those
// that need only be used again. Few in use stay in the processor's cache.
func (j *Journal) makeSegments() {
	const pause = time.Second
	lately := pace{began: time.Now()}
	for {
		more := max(int(lately.of(j.takes.Load(), time.Now()))-j.wornNow(), 0)
		wanted := min(len(j.shards)+more, cap(j.spares))
		if len(j.spares) >= wanted {
			select {
			case <-j.taken:
			case <-j.freed: // the keeper may have taken them
			case <-j.stop:
				return
			}
			continue
		}
		s, err := j.newSegment(len(j.spares) > 0)
		if err != nil {
			if !errors.Is(err, errQuota) && !errors.Is(err, errHeld) {
				j.diskFailed("a segment of the click journal could not be made", err)
			}
			select {
			case <-time.After(pause):
			case <-j.taken:
			case <-j.freed:
			case <-j.stop:
				return
			}
			continue
		}
		j.spares <- s // which has room: nobody else puts one there
	}
}

// newSegment adds a segment to the current boot, if the bounds allow it. The room
// of one more is left for batches, and some for merges; one that is ready beside another is not
// worth that anything gives way to it. A file whose clicks are in batches is used again, if there is one.
// There is one caller at a time.
func (j *Journal) newSegment(beside bool) (s *segment, err error) {
	if j.hold.Load() {
		return nil, errHeld
	}
	old := j.unworn()
	if err := j.allowSegment(beside, old != nil); err != nil {
		if old != nil {
			err = errors.Join(err, j.dir.discard(old))
		}
		return nil, err
	}
	j.mu.Lock()
	number := j.current.next
	j.mu.Unlock()
	if old != nil {
		s, err = j.dir.reuse(old, j.current.node, number)
	} else {
		s, err = createSegment(j.dir, j.current.boot, j.current.node, number, j.cfg.SegmentBytes)
	}
	if err != nil {
		return nil, err
	}
	// Only now, when the file is there, does the number count: a batch that knows of
	// the number, and not of the segment, says that all of it is covered.
	j.mu.Lock()
	defer j.mu.Unlock()
	j.current.segments = append(j.current.segments, s)
	j.current.next++
	return s, nil
}

// allowSegment reports whether the bounds allow another segment. That a file is used again takes no more room,
// and is asked no more often than once a second while there is plenty.
func (j *Journal) allowSegment(beside, again bool) error {
	if again && time.Since(j.plenty) < time.Second {
		return nil
	}
	used, err := j.dir.used()
	if err != nil {
		return fmt.Errorf("size of the click journal: %w", err)
	}
	missing := used + 2*j.cfg.SegmentBytes - (j.cfg.MaxBytes - j.cfg.MaxBytes/mergeReserve)
	if again {
		missing -= j.cfg.SegmentBytes
	}
	if missing < -j.cfg.MaxBytes/4 {
		j.plenty = time.Now()
	} else if beside {
		return errQuota
	}
	if missing > 0 && j.makeRoom(missing) < missing {
		j.signal(j.folded) // perhaps there are folds that could be smaller
		return errQuota
	}
	return nil
}
