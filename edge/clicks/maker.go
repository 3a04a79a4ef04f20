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

// makeSegments is the maker: it has the next segment ready before one is full.
func (j *Journal) makeSegments() {
	const pause = time.Second
	for {
		s, err := j.newSegment()
		if err != nil {
			if !errors.Is(err, errQuota) && !errors.Is(err, errHeld) {
				j.diskFailed("a segment of the click journal could not be made", err)
			}
			select {
			case <-time.After(pause):
			case <-j.freed:
			case <-j.stop:
				return
			}
			continue
		}
		select {
		case j.spares <- s:
		case <-j.stop:
			return
		}
	}
}

// newSegment adds a segment to the current boot, if the bounds allow it. The room
// of one more is left for batches, and some for merges. There is one caller at a time.
func (j *Journal) newSegment() (*segment, error) {
	if j.hold.Load() {
		return nil, errHeld
	}
	used, err := j.dir.used()
	if err != nil {
		return nil, fmt.Errorf("size of the click journal: %w", err)
	}
	if missing := used + 2*j.cfg.SegmentBytes - (j.cfg.MaxBytes - j.cfg.MaxBytes/mergeReserve); missing > 0 && j.makeRoom(missing) < missing {
		j.signal(j.folded) // perhaps there are folds that could be smaller
		return nil, errQuota
	}
	j.mu.Lock()
	number := j.current.next
	j.mu.Unlock()
	s, err := createSegment(j.dir, j.current.boot, j.current.node, number, j.cfg.SegmentBytes)
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
