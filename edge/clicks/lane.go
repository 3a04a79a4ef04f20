package clicks

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"waypost/internal/failpoint"
)

// lane is what there is of one boot: its segments, folds and batches. The current one
// grows; those of earlier boots only become less.
type lane struct {
	boot bootName
	node string

	// The fixer's own: a file whose making failed, and that may be there all the same.
	doubtful name

	// Guarded by the journal's mu:
	next     uint64 // number of the next segment
	segments []*segment
	nextFold uint64
	folds    []*fold // the oldest first
	seq      uint64  // of the newest batch; 0 if there is none
	waiting  []waitingBatch
	newest   bool   // the newest batch is acknowledged, and kept for its cover
	kept     []kept // acknowledged, the oldest first

	// When the control plane last had all that it has acknowledged.
	confirmed time.Time
	// How often in a row the control plane has not taken clicks of the node, and until when it is not asked again.
	refusals int
	aside    time.Time
}

// waitingBatch is fixed and not acknowledged.
type waitingBatch struct {
	seq, clicks uint64
	size        int64
	since       time.Time
}

func (l *lane) batch(seq uint64, s state) name { return name{batchKind, l.boot, seq, s} }

// cover says where the clicks are now. The journal's mu is held.
func (l *lane) cover() cover {
	c := cover{next: l.next, nextFold: l.nextFold}
	for _, s := range l.segments {
		c.segments = append(c.segments, coveredSegment{s.name.n, s.covered})
	}
	for _, f := range l.folds {
		c.folds = append(c.folds, coveredFold{f.name.n, uint32(f.used)})
	}
	return c
}

// commit makes a batch or a fold durable. When it fails, nothing has changed for
// the journal: the file may be there, but nobody has seen it, and it is made again under
// the same name, or removed before another one is made.
func (j *Journal) commit(l *lane, n name, f *os.File) error {
	if l.doubtful != (name{}) && l.doubtful != n {
		if err := errors.Join(j.dir.remove(l.doubtful.String()), j.dir.sync()); err != nil {
			return errors.Join(err, j.dir.abandon(f))
		}
	}
	l.doubtful = n
	if err := j.dir.finish(f, n.String()); err != nil {
		return errors.Join(err, j.dir.abandon(f))
	}
	l.doubtful = name{}
	return f.Close()
}

// commitBatch makes a batch durable. Before it returns without an error nothing of it
// may be sent, after it nothing may be changed.
func (j *Journal) commitBatch(l *lane, b *batchFile) error {
	n := l.batch(b.seq, fixed)
	f, err := j.dir.begin(n.String())
	if err != nil {
		return err
	}
	j.fixer.file = b.append(j.fixer.file[:0])
	if _, err := f.Write(j.fixer.file); err != nil {
		return errors.Join(err, j.dir.abandon(f))
	}
	if err := j.commit(l, n, f); err != nil {
		return err
	}
	j.counts.batches.Add(1)
	return nil
}

// succeed puts a batch in the place of the newest one. The lock is held.
func (j *Journal) succeed(l *lane, b waitingBatch) {
	if l.newest && !j.keeping() {
		if err := j.dir.remove(l.batch(l.seq, shipped).String()); err != nil {
			j.diskFailed("a shipped batch could not be removed", err)
		}
	}
	l.seq, l.newest = b.seq, false
	l.waiting = append(l.waiting, b)
	j.signal(j.wake)
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
	failpoint.Hit("seal segment: begun")
	defer failpoint.Hit("seal segment: done")
	if err := j.dir.rename(s.name.String(), to.String()); err != nil {
		j.diskFailed("a segment of the click journal could not be renamed", err)
		return
	}
	s.name = to
}

// retire ends a segment that is sealed and covered as a whole. The lock is held.
func (j *Journal) retire(l *lane, s *segment) {
	if s.bad.Load() {
		j.counts.diskErrors.Add(1)
		j.log.Error("the memory of a segment could not be written", slog.String("segment", s.name.String()))
	}
	l.segments = slices.DeleteFunc(l.segments, func(o *segment) bool { return o == s })
	if j.wear(l, s) {
		return
	}
	var err error
	if s.damaged {
		err = errors.Join(s.unmap(), s.file.Close(), j.quarantine(s.name.String()))
	} else {
		err = j.dir.discard(s)
	}
	if err != nil {
		j.diskFailed("a segment of the click journal could not be put away", err)
	}
	j.signal(j.freed)
}

// retireFold ends a fold all of which is in batches or in another fold. The lock is held.
func (j *Journal) retireFold(l *lane, f *fold) {
	var err error
	if f.damaged {
		err = j.quarantine(f.name.String())
	} else {
		err = j.dir.remove(f.name.String())
	}
	if err != nil {
		j.diskFailed("a fold of the click journal could not be put away", err)
	}
	l.folds = slices.DeleteFunc(l.folds, func(o *fold) bool { return o == f })
	j.signal(j.freed)
}

// quarantine puts a file away that cannot be read.
func (j *Journal) quarantine(file string) error {
	j.counts.quarantined.Add(1)
	j.log.Error("a file of the click journal is quarantined", slog.String("file", file))
	return j.dir.moveTo(quarantineDir, file)
}

// finish ends a lane of an earlier boot of which nothing is left but its newest
// batch, and nothing that is still kept. That goes last: without it, a segment that came back after a power cut
// would look as if it were in no batch. The lock is held.
func (j *Journal) finish(l *lane) error {
	if l == j.current || len(l.segments)+len(l.folds)+len(l.waiting) > 0 {
		return nil
	}
	if j.keeping() && len(l.kept) > 0 {
		if last := l.kept[len(l.kept)-1]; len(l.kept) > 1 || time.Since(last.since) <= j.cfg.KeepAcknowledged {
			return nil
		}
	}
	if l.newest {
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

// acknowledge takes the oldest batch of a lane off those that wait. Counted says that
// the control plane has counted it, and not that it never will.
func (j *Journal) acknowledge(l *lane, counted bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := l.waiting[0]
	file := l.batch(b.seq, fixed)
	var err error
	failpoint.Hit("acknowledge batch: begun")
	if b.seq == l.seq || j.keeping() && counted {
		err = j.dir.rename(file.String(), file.in(shipped).String())
		l.newest = l.newest || b.seq == l.seq
	} else {
		err = j.dir.remove(file.String())
	}
	failpoint.Hit("acknowledge batch: done")
	if j.keeping() && counted && err == nil {
		l.kept = append(l.kept, kept{file.in(shipped), b.seq, b.seq, b.size, time.Now()})
	}
	l.waiting = l.waiting[1:]
	l.confirmed = time.Now()
	j.signal(j.freed)
	j.signal(j.turn)
	if err = errors.Join(err, j.finish(l)); err != nil {
		// The next boot will send the batch again, which changes nothing.
		j.diskFailed("an acknowledged batch could not be put away", err)
	}
}
