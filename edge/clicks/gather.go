package clicks

import "slices"

// gatherAll adds up the clicks that are in the stream's segments and not covered yet, and
// returns the checkpoint that includes them. More says that there may be others.
func (b *batcher) gatherAll(s *stream) (segments []*segment, results []gathered, point checkpoint, more bool) {
	b.catalog.mu.Lock()
	segments, point = slices.Clone(s.segments), s.checkpoint()
	b.catalog.mu.Unlock()
	b.sums.reset()
	results = make([]gathered, len(segments))
	for i, seg := range segments {
		if more {
			results[i] = gathered{end: seg.covered}
		} else {
			results[i] = b.gather(seg)
			more = results[i].full
		}
		point.segments[i].end = results[i].end
	}
	return segments, results, point, more
}

// gathered says how far a segment was read, and with which findings.
type gathered struct {
	end     int64
	full    bool // the tally has no room left
	done    bool // there is nothing behind end, and never will be
	torn    bool // a crash cut the last record
	damaged bool
	err     error // the file cannot be read
}

// gather adds up a segment's records, from where it is covered.
func (b *batcher) gather(seg *segment) gathered {
	g := gathered{done: seg.done.Load(), end: seg.tail.Load()} // in this order
	if g.end == seg.covered {
		return g
	}
	b.buf = slices.Grow(b.buf[:0], int(g.end-seg.covered))
	walk := scanOf(seg.file, b.buf[:g.end-seg.covered], seg.covered, seg.number)
	for {
		r, ok := walk.record()
		if !ok {
			break
		}
		if !b.sums.addClick(&r, &walk) {
			return gathered{end: seg.covered + int64(walk.next), full: true, damaged: walk.hole || walk.next != walk.end}
		}
		walk.accept()
		b.pace.Step()
	}
	if walk.err != nil {
		// Clicks that it takes from now on would be lost with it.
		b.recorder.giveUp(seg)
		g.done, g.err = true, walk.err
	}
	// A click may have been cut off where an earlier boot ended, and nowhere else.
	g.torn = seg.found && walk.cut()
	g.damaged = walk.hole || walk.tail() > 0 && !g.torn || !seg.found && walk.end != len(walk.buf)
	return g
}
