package clicks

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"waypost"
)

// lane is what there is of one boot: its segments, and its batches that wait to be
// acknowledged. The current one grows; those of earlier boots only become less.
type lane struct {
	boot bootName
	node string

	// Guarded by the journal's mu:
	next     uint64 // number of the next segment
	segments []*segment
	seq      uint64 // of the newest batch; 0 if there is none
	waiting  []waitingBatch
	kept     bool // the newest batch is acknowledged, and kept for its cover
}

// waitingBatch is fixed and not acknowledged.
type waitingBatch struct {
	seq, clicks uint64
	since       time.Time
}

func (l *lane) batch(seq uint64, s state) name { return name{batchKind, l.boot, seq, s} }

// fix makes the next batch of what is in the lane's segments and in no batch yet.
// It reports whether something may be left for another. Only one goroutine fixes.
//
// When it fails, nothing has changed: the batch may be on the disk, but as nobody
// has sent it, it may be made again with other content under the same name.
func (j *Journal) fix(l *lane) (more bool, err error) {
	j.mu.Lock()
	segments, c, seq := slices.Clone(l.segments), cover{next: l.next}, l.seq+1
	j.mu.Unlock()

	sums := j.keeper.sums
	sums.reset()
	results := make([]gathered, len(segments))
	for i, s := range segments {
		if more {
			results[i] = gathered{end: s.covered}
		} else {
			results[i] = j.gather(s, sums)
			more = results[i].full
		}
		c.segments = append(c.segments, coveredSegment{s.name.n, results[i].end})
	}
	if sums.clicks > 0 {
		b := newBatchFile(j.zstd, &waypost.ClickBatch{Node: l.node, Boot: l.boot.id, Seq: seq, Totals: sums.sorted()}, sums.clicks, c)
		if err := writeBatch(j.dir, l.batch(seq, fixed), &b); err != nil {
			return false, err
		}
		j.counts.batches.Add(1)
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	if sums.clicks > 0 {
		j.succeed(l, waitingBatch{seq, sums.clicks, time.Now()})
	}
	for i, s := range segments {
		j.settle(l, s, results[i])
	}
	return more, j.finish(l)
}

// succeed puts a batch in the place of the newest one. The lock is held.
func (j *Journal) succeed(l *lane, b waitingBatch) {
	if l.kept {
		if err := j.dir.remove(l.batch(l.seq, shipped).String()); err != nil {
			j.diskFailed("a shipped batch could not be removed", err)
		}
	}
	l.seq, l.kept = b.seq, false
	l.waiting = append(l.waiting, b)
	j.signal(j.wake)
}

// gathered is how far a segment was read into a batch, and what was met there.
type gathered struct {
	end     int64
	full    bool // the batch can take no more
	done    bool // there is nothing behind end, and there never will be
	torn    bool // the last record was cut by a crash
	damaged bool
	err     error // the file cannot be read
}

// gather adds a segment's records to sums, from where the last batch ended.
func (j *Journal) gather(s *segment, sums *totals) gathered {
	g := gathered{done: s.done.Load(), end: s.tail.Load()} // in this order
	if g.end == s.covered {
		return g
	}
	j.keeper.buf = slices.Grow(j.keeper.buf[:0], int(g.end-s.covered))
	buf := j.keeper.buf[:g.end-s.covered]
	n, err := s.file.ReadAt(buf, s.covered)
	walk := scan{buf: buf[:n]}
	for {
		r, ok := walk.record()
		if !ok {
			break
		}
		if !sums.add(r) {
			return gathered{end: s.covered + int64(walk.next), full: true, damaged: walk.hole || walk.next != walk.end}
		}
		walk.accept()
	}
	if err != nil {
		// Whatever comes to it now goes with it.
		for i := range j.shards {
			j.shards[i].giveUp(s)
		}
		g.done, g.err = true, err
	}
	// A click may have been cut off where an earlier boot ended, and nowhere else.
	g.torn = s.found && walk.tail() > 0 && walk.tail() <= maxRecord
	g.damaged = walk.hole || walk.tail() > 0 && !g.torn || !s.found && walk.end != n
	return g
}

// settle notes what became of a segment, once that is durable. The lock is held.
func (j *Journal) settle(l *lane, s *segment, g gathered) {
	s.covered = g.end
	if g.torn {
		j.counts.torn.Add(1)
		j.log.Warn("a click that was cut off by a crash is lost", slog.String("segment", s.name.String()))
	}
	if g.err != nil {
		j.diskFailed("a segment of the click journal cannot be read", g.err)
	}
	if (g.damaged || g.err != nil) && !s.damaged {
		s.damaged = true
		j.log.Error("a segment of the click journal is damaged: clicks in it may be lost", slog.String("segment", s.name.String()))
	}
	if g.done {
		j.retire(l, s)
	} else if s.done.Load() && s.name.state == active {
		j.rename(s)
	}
}

// rename says in the file's name that it takes no more. It is not vital: nobody
// records to what an earlier boot left.
func (j *Journal) rename(s *segment) {
	to := s.name.in(sealed)
	if err := j.dir.rename(s.name.String(), to.String()); err != nil {
		j.diskFailed("a segment of the click journal could not be renamed", err)
		return
	}
	s.name = to
}

// retire ends a segment that is sealed and in batches as a whole. The lock is held.
func (j *Journal) retire(l *lane, s *segment) {
	if s.bad.Load() {
		j.counts.diskErrors.Add(1)
		j.log.Error("the memory of a segment could not be written", slog.String("segment", s.name.String()))
	}
	err := errors.Join(s.unmap(), s.file.Close())
	if s.damaged {
		err = errors.Join(err, j.quarantine(s.name.String()))
	} else {
		err = errors.Join(err, j.dir.remove(s.name.String()))
	}
	if err != nil {
		j.diskFailed("a segment of the click journal could not be put away", err)
	}
	l.segments = slices.DeleteFunc(l.segments, func(o *segment) bool { return o == s })
	j.signal(j.freed)
}

// quarantine puts a file away that cannot be read.
func (j *Journal) quarantine(file string) error {
	j.counts.quarantined.Add(1)
	j.log.Error("a file of the click journal is quarantined", slog.String("file", file))
	return j.dir.moveTo(quarantineDir, file)
}

// finish ends a lane of an earlier boot of which nothing is left but its newest
// batch. That goes last: without it, a segment that came back after a power cut
// would look as if it were in no batch. The lock is held.
func (j *Journal) finish(l *lane) error {
	if l == j.current || len(l.segments) > 0 || len(l.waiting) > 0 {
		return nil
	}
	if l.kept {
		if err := j.dir.sync(); err != nil {
			return err
		}
		if err := j.dir.remove(l.batch(l.seq, shipped).String()); err != nil {
			return err
		}
	}
	j.lanes = slices.DeleteFunc(j.lanes, func(o *lane) bool { return o == l })
	return nil
}

// acknowledge forgets the oldest waiting batch of a lane.
func (j *Journal) acknowledge(l *lane) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := l.waiting[0]
	file := l.batch(b.seq, fixed)
	var err error
	if b.seq == l.seq {
		err = j.dir.rename(file.String(), file.in(shipped).String())
		l.kept = true
	} else {
		err = j.dir.remove(file.String())
	}
	l.waiting = l.waiting[1:]
	j.signal(j.freed)
	if err = errors.Join(err, j.finish(l)); err != nil {
		// The next boot will send the batch again, which changes nothing.
		j.diskFailed("an acknowledged batch could not be put away", err)
	}
}
