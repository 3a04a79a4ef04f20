package clicks

import (
	"errors"
	"log/slog"
	"os"
	"slices"

	"waypost"
	"waypost/internal/failpoint"
)

// mergeJob is folds of a lane that become one, of a grade.
type mergeJob struct {
	lane   *lane
	inputs []*fold // not empty
	grade  grade
}

// merge makes one fold of several, and removes them once it is durable. Nobody but the
// merger calls it. It may take long, so the fixer is held only at its end; when the journal is
// sealed meanwhile, it leaves everything as it was.
func (j *Journal) merge(job *mergeJob) (err error) {
	defer func() {
		if err != nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			for _, f := range job.inputs {
				f.merging = false
			}
			j.signal(j.turn)
		}
	}()
	l := job.lane
	// Its number is given when it is done, so it has a name that no other can have.
	out, err := j.dir.begin(name{foldKind, l.boot, ^uint64(0), sealed}.String())
	if err != nil {
		return err
	}
	w := newFoldWriter(out, j.mergeZstd, l, job.grade)
	clicks, err := j.mergeInto(w, job)
	if err == nil {
		err = j.cfg.disk.sync(out) // most of what is to be synced
	}
	if err != nil {
		return errors.Join(err, j.dir.abandon(out))
	}
	j.fixing.Lock()
	defer j.fixing.Unlock()
	j.mu.Lock()
	c := l.cover()
	j.mu.Unlock()
	c.folds = slices.DeleteFunc(c.folds, func(o coveredFold) bool {
		return slices.ContainsFunc(job.inputs, func(f *fold) bool { return f.name.n == o.number })
	})
	failpoint.Hit("merge folds: begun")
	made, err := j.commitFold(l, out, w, &c)
	if err != nil {
		return err
	}
	failpoint.Hit("merge folds: durable")
	if job.inputs[0].grade != job.grade {
		j.counts.folded[job.grade].Add(clicks)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.IndexFunc(l.folds, func(f *fold) bool { return slices.Contains(job.inputs, f) })
	l.folds = slices.Insert(l.folds, at, made) // where the oldest of them is
	for _, f := range job.inputs {
		j.retireFold(l, f)
	}
	j.signal(j.turn)
	return nil
}

var errSealing = errors.New("the journal is being sealed")

// mergeInto writes what the job's folds have, and gives the number of clicks.
func (j *Journal) mergeInto(w *foldWriter, job *mergeJob) (clicks uint64, err error) {
	sources := make([]*source, len(job.inputs))
	for i, f := range job.inputs {
		file, err := os.Open(j.dir.path(f.name.String()))
		if err != nil {
			return 0, err
		}
		defer file.Close()
		sources[i] = &source{j: j, fold: f, file: file, at: -1}
		clicks += f.clicks()
		if err := sources[i].next(); err != nil {
			return 0, err
		}
	}
	for {
		var first *waypost.LinkClicks
		for _, s := range sources {
			if l := s.link(); l != nil && (first == nil || compareLinks(l, first) < 0) {
				first = l
			}
		}
		if first == nil {
			return clicks, w.close()
		}
		if err := mergeLink(w, *first, sources); err != nil {
			return 0, err
		}
	}
}

// mergeLink writes all that the sources have of one link.
func mergeLink(w *foldWriter, l waypost.LinkClicks, sources []*source) error {
	for _, s := range sources {
		if o := s.peek(&l); o != nil {
			l.Last = max(l.Last, o.Last)
		}
	}
	if err := w.begin(&l); err != nil {
		return err
	}
	var who []waypost.Visitor
	for _, s := range sources {
		for o := s.peek(&l); o != nil; o = s.peek(&l) {
			for _, r := range o.Rows {
				if err := w.row(&s.profiles, r); err != nil {
					return err
				}
			}
			who = append(who, o.Visitors...)
			if err := s.next(); err != nil {
				return err
			}
		}
	}
	for _, v := range who {
		if err := w.visitor(v); err != nil {
			return err
		}
	}
	w.end()
	return nil
}

// source reads a fold, link by link.
type source struct {
	j        *Journal
	fold     *fold
	file     *os.File
	block    int
	batch    waypost.ClickBatch
	at       int
	profiles dictionary
}

// link gives the current one; nil at the end.
func (s *source) link() *waypost.LinkClicks {
	if s.at < len(s.batch.Links) {
		return &s.batch.Links[s.at]
	}
	return nil
}

// peek gives the current one if it is l.
func (s *source) peek(l *waypost.LinkClicks) *waypost.LinkClicks {
	if o := s.link(); o != nil && compareLinks(o, l) == 0 {
		return o
	}
	return nil
}

// next goes to the next link, or to the first one. A block that cannot be read is passed
// over, and the fold goes to quarantine when it is retired.
func (s *source) next() error {
	if s.at++; s.at < len(s.batch.Links) {
		return nil
	}
	for s.batch = (waypost.ClickBatch{}); s.block < len(s.fold.blocks); s.block++ {
		select {
		case <-s.j.stop:
			return errSealing
		default:
		}
		b, err := s.fold.readBlock(s.file, s.j.unzip, s.block)
		if err == nil && len(b.Links) > 0 {
			s.block++
			s.batch, s.at, s.profiles = b, 0, newDictionary(b.Profiles)
			return nil
		}
		if err != nil && !unreadable(err) {
			return err
		}
		if err != nil {
			clicks := s.fold.blocks[s.block].clicks
			s.j.counts.lost.Add(clicks)
			s.j.log.Error("a part of a fold of clicks cannot be read", slog.String("fold", s.fold.name.String()),
				slog.Uint64("clicks", clicks), slog.Any("error", err))
			s.j.mu.Lock()
			s.fold.damaged = true
			s.j.mu.Unlock()
		}
	}
	return nil
}
