package clicks

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"waypost"
)

const (
	// maxAhead is how many batches of a boot may wait before its segments become folds.
	maxAhead = 4

	// maxUnfolded is how many may wait before another one is made of a fold.
	maxUnfolded = 2
)

// tend brings a lane's clicks nearer to the control plane. While batches wait, sealed
// segments become batches, up to a few, and folds then, so that what nobody has seen can
// still be made smaller. While none waits, the oldest fold becomes one, block by block, or else the
// segments do: all that is in them when that is due. The fixer is held.
func (j *Journal) tend(l *lane, due bool) error {
	for {
		j.mu.Lock()
		waiting := len(l.waiting)
		ready := slices.ContainsFunc(l.segments, func(s *segment) bool { return s.done.Load() })
		n := slices.IndexFunc(l.folds, func(f *fold) bool { return !f.merging })
		var oldest *fold
		if n >= 0 {
			oldest = l.folds[n]
		}
		if oldest != nil && waiting < maxUnfolded {
			oldest.batching = true // or it would be merged meanwhile
		}
		folds := len(l.folds)
		j.mu.Unlock()

		var err error
		switch {
		case oldest != nil && waiting < maxUnfolded:
			err = j.fixBlock(l, oldest)
		case folds == 0 && (ready && waiting < maxAhead || due && waiting == 0):
			due, err = j.fixSegments(l)
		case ready:
			err = j.foldSegments(l)
		default:
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.finish(l)
		}
		if err != nil {
			return err
		}
	}
}

// fixSegments makes the next batch of what is in the lane's segments and covered by nothing
// yet. It reports whether something may be left for another.
func (j *Journal) fixSegments(l *lane) (more bool, err error) {
	m := j.beginMark()
	segments, results, c, more := j.gatherAll(l)
	sums, dropped := j.fixer.sums, j.undropped(l)
	made := sums.clicks() > 0 || dropped > 0
	var b batchFile
	if made {
		j.mu.Lock()
		seq := l.seq + 1
		j.mu.Unlock()
		batch := sums.batch(false)
		batch.Node, batch.Boot, batch.Seq, batch.Dropped = l.node, l.boot.id, seq, dropped
		b = j.newBatchFile(&batch, sums.clicks(), c)
		if err := j.commitBatch(l, &b); err != nil {
			return false, err
		}
		j.fixer.reported += dropped
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if made {
		j.succeed(l, waitingBatch{b.seq, b.clicks, b.size(), time.Now()})
	}
	for i, s := range segments {
		j.settle(l, s, results[i])
	}
	if l == j.current && !more {
		j.progress.gathered = max(m.recorded, j.progress.gathered+sums.clicks())
		j.endMark(m)
	}
	return more, nil
}

// foldSegments is fixSegments for a fold.
func (j *Journal) foldSegments(l *lane) error {
	recorded := j.recorded()
	segments, results, c, more := j.gatherAll(l)
	sums := j.fixer.sums
	var made *fold
	if sums.clicks() > 0 {
		f, err := j.dir.begin(name{foldKind, l.boot, l.nextFold, sealed}.String())
		if err != nil {
			return err
		}
		w := newFoldWriter(f, j.zstd, l, exactGrade)
		if err := w.writeTally(sums); err != nil {
			return errors.Join(err, j.dir.abandon(f))
		}
		if made, err = j.commitFold(l, f, w, &c); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if made != nil {
		l.folds = append(l.folds, made)
		j.signal(j.folded)
	}
	for i, s := range segments {
		j.settle(l, s, results[i])
	}
	if l == j.current && !more {
		j.progress.gathered = max(recorded, j.progress.gathered+sums.clicks())
	}
	return nil
}

// commitFold completes the file of a fold and makes it durable. The cover is without it.
func (j *Journal) commitFold(l *lane, file *os.File, w *foldWriter, c *cover) (*fold, error) {
	j.mu.Lock()
	f := &fold{name: name{foldKind, l.boot, l.nextFold, sealed}, node: l.node, grade: w.grade, seq: l.seq, blocks: w.blocks}
	j.mu.Unlock()
	foot := f.foot(c)
	if _, err := file.Write(foot); err != nil {
		return nil, errors.Join(err, j.dir.abandon(file))
	}
	f.size = w.size + int64(len(foot))
	if err := j.commit(l, f.name, file); err != nil {
		return nil, err
	}
	j.mu.Lock()
	l.nextFold++
	j.mu.Unlock()
	return f, nil
}

// fixBlock makes the next batch of the next block of a fold. One that cannot be read is
// passed over, and the fold goes to quarantine at its end.
func (j *Journal) fixBlock(l *lane, f *fold) error {
	batch, err := j.readBlock(f, f.used)
	if err != nil && !unreadable(err) {
		return err
	}
	if err != nil {
		j.counts.lost.Add(f.blocks[f.used].clicks)
		j.log.Error("a part of a fold of clicks cannot be read", slog.String("fold", f.name.String()),
			slog.Uint64("clicks", f.blocks[f.used].clicks), slog.Any("error", err))
		j.mu.Lock()
		defer j.mu.Unlock()
		f.damaged = true
		j.use(l, f)
		return nil
	}
	j.mu.Lock()
	f.used++
	c, seq := l.cover(), l.seq+1
	f.used--
	j.mu.Unlock()
	if f.used+1 == len(f.blocks) {
		c.folds = slices.DeleteFunc(c.folds, func(o coveredFold) bool { return o.number == f.name.n })
	}
	batch.Node, batch.Boot, batch.Seq, batch.Dropped = l.node, l.boot.id, seq, j.undropped(l)
	clicks := f.blocks[f.used].clicks
	b := j.newBatchFile(&batch, clicks, c)
	if err := j.commitBatch(l, &b); err != nil {
		return err
	}
	j.fixer.reported += batch.Dropped
	j.mu.Lock()
	defer j.mu.Unlock()
	j.succeed(l, waitingBatch{seq, clicks, b.size(), time.Now()})
	j.use(l, f)
	return nil
}

// use notes that the next block of a fold needs nobody any more. The lock is held.
func (j *Journal) use(l *lane, f *fold) {
	if f.used++; f.used == len(f.blocks) {
		j.retireFold(l, f)
	}
}

func (j *Journal) readBlock(f *fold, n int) (waypost.ClickBatch, error) {
	file, err := os.Open(j.dir.path(f.name.String()))
	if err != nil {
		return waypost.ClickBatch{}, err
	}
	b, err := f.readBlock(file, j.unzip, n)
	return b, errors.Join(err, file.Close())
}

// undropped is how many clicks were dropped of which no batch of a boot has told.
func (j *Journal) undropped(l *lane) uint64 {
	if l != j.current {
		return 0
	}
	return j.dropped.Load() - j.fixer.reported
}

// gatherAll adds up what is in the lane's segments and covered by nothing yet, and gives
// the cover once it is. More says that something may be left.
func (j *Journal) gatherAll(l *lane) (segments []*segment, results []gathered, c cover, more bool) {
	j.mu.Lock()
	segments, c = slices.Clone(l.segments), l.cover()
	j.mu.Unlock()
	j.fixer.sums.reset()
	results = make([]gathered, len(segments))
	for i, s := range segments {
		if more {
			results[i] = gathered{end: s.covered}
		} else {
			results[i] = j.gather(s, j.fixer.sums)
			more = results[i].full
		}
		c.segments[i].end = results[i].end
	}
	return segments, results, c, more
}

// gathered is how far a segment was read, and what was met there.
type gathered struct {
	end     int64
	full    bool // the tally can take no more
	done    bool // there is nothing behind end, and there never will be
	torn    bool // the last record was cut by a crash
	damaged bool
	err     error // the file cannot be read
}

// gather adds a segment's records to sums, from where it is covered.
func (j *Journal) gather(s *segment, sums *tally) gathered {
	g := gathered{done: s.done.Load(), end: s.tail.Load()} // in this order
	if g.end == s.covered {
		return g
	}
	j.fixer.buf = slices.Grow(j.fixer.buf[:0], int(g.end-s.covered))
	walk := scanOf(s.file, j.fixer.buf[:g.end-s.covered], s.covered, s.number)
	for {
		r, ok := walk.record()
		if !ok {
			break
		}
		if !sums.add(&r, &walk) {
			return gathered{end: s.covered + int64(walk.next), full: true, damaged: walk.hole || walk.next != walk.end}
		}
		walk.accept()
	}
	if walk.err != nil {
		// Whatever comes to it now goes with it.
		for i := range j.shards {
			j.shards[i].giveUp(s)
		}
		g.done, g.err = true, walk.err
	}
	// A click may have been cut off where an earlier boot ended, and nowhere else.
	g.torn = s.found && walk.cut()
	g.damaged = walk.hole || walk.tail() > 0 && !g.torn || !s.found && walk.end != len(walk.buf)
	return g
}
