package clicks

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"waypost/internal/failpoint"
)

// recover makes lanes of what earlier boots left, and gives the ordinal of the last
// boot. It fails only when the directory cannot be read or changed: whatever is wrong
// with a file is the file's matter.
func (j *Journal) recover() (ordinal uint32, err error) {
	boots, err := j.survey(nil)
	if err == nil {
		j.lanes, err = j.reviveAll(boots)
	}
	for boot := range boots {
		ordinal = max(ordinal, boot.ordinal)
	}
	return ordinal, err
}

// survey sorts the directory's files by boot, but for those of boots that are known.
// What is no file of a journal goes to quarantine, and what never became one is
// removed, unless a known boot may be making it.
func (j *Journal) survey(known map[bootName]bool) (map[bootName]*remains, error) {
	entries, err := os.ReadDir(j.dir.root)
	if err != nil {
		return nil, err
	}
	boots := make(map[bootName]*remains)
	for _, e := range entries {
		file, unfinished := strings.CutPrefix(e.Name(), temporary)
		n, ok := parseName(file)
		switch {
		case e.IsDir(), ok && known[n.boot]:
		case unfinished && (ok || known == nil):
			err = j.dir.remove(e.Name())
		case ok:
			r := boots[n.boot]
			if r == nil {
				r = &remains{lane: &lane{boot: n.boot}}
				boots[n.boot] = r
			}
			r.add(n)
		case known == nil:
			err = j.quarantine(e.Name())
		}
		if err != nil {
			return nil, err
		}
	}
	return boots, nil
}

// reviveAll makes lanes of boots, in order.
func (j *Journal) reviveAll(boots map[bootName]*remains) ([]*lane, error) {
	var lanes []*lane
	for _, r := range boots {
		lanes = append(lanes, r.lane)
		if err := j.revive(r); err != nil {
			return nil, fmt.Errorf("recover boot %s: %w", r.lane.boot, errors.Join(err, closeSegments(lanes)))
		}
	}
	slices.SortFunc(lanes, func(a, b *lane) int { return a.boot.compare(b.boot) })
	return lanes, nil
}

// remains are the files of one boot.
type remains struct {
	lane                     *lane
	segments, folds, batches []name
	packs, shipped           []name // of the batches, those that are acknowledged
}

func (r *remains) add(n name) {
	switch n.kind {
	case segmentKind:
		r.segments = append(r.segments, n)
	case foldKind:
		r.folds = append(r.folds, n)
	case batchKind:
		r.batches = append(r.batches, n)
		if n.state == shipped {
			r.shipped = append(r.shipped, n)
		}
	case packKind:
		r.packs = append(r.packs, n)
	}
}

func byNumber(a, b name) int {
	return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.state, b.state))
}

// revive makes a lane of a boot's files. The newest of its batches and folds says where
// the clicks are. If that cannot be read nobody knows, and the segments and folds go to
// quarantine with it: a click is rather lost in sight than counted twice.
func (j *Journal) revive(r *remains) error {
	failpoint.Hit("recover boot: begun")
	defer failpoint.Hit("recover boot: done")
	slices.SortFunc(r.segments, byNumber)
	slices.SortFunc(r.folds, byNumber)
	slices.SortFunc(r.batches, byNumber)
	slices.SortFunc(r.packs, byNumber)
	slices.SortFunc(r.shipped, byNumber)
	read, err := j.readRemains(r)
	if err != nil {
		return err
	}
	covered, known := read.cover()
	if !known {
		return j.giveUpBoot(r, read)
	}
	for i, n := range r.batches {
		b := read.batches[i]
		last := i == len(r.batches)-1
		switch {
		case b.err != nil:
			err = j.giveUp(n, b.err)
		case n.state == fixed:
			err = j.await(r.lane, n, &b.batchFile)
		default:
			r.lane.newest = last
		}
		if err != nil {
			return err
		}
		r.lane.node = cmp.Or(b.node, r.lane.node)
		if last {
			r.lane.seq = n.n
		}
	}
	if err := j.reviveKept(r); err != nil {
		return err
	}
	if err := j.reviveFolds(r, read, &covered); err != nil {
		return err
	}
	for _, n := range r.segments {
		r.lane.next = max(r.lane.next, n.n+1)
		if err := j.reviveSegment(r.lane, n, &covered); err != nil {
			return err
		}
	}
	if l := r.lane; len(l.segments)+len(l.folds)+len(l.waiting) > 0 {
		j.log.Info("clicks of an earlier start were found", slog.String("boot", l.boot.String()),
			slog.Int("segments", len(l.segments)), slog.Int("folds", len(l.folds)), slog.Int("batches", len(l.waiting)))
	}
	return nil
}

// readable are a boot's batches and folds, as far as they can be read.
type readable struct {
	batches []readBatchFile
	folds   []readFoldFile
}

type readBatchFile struct {
	batchFile
	n   uint64
	err error
}

type readFoldFile struct {
	*fold
	cover cover
	n     uint64
	err   error
}

func (j *Journal) readRemains(r *remains) (*readable, error) {
	out := &readable{}
	for _, n := range r.batches {
		b, err := readBatch(j.dir, n)
		if err != nil && !unreadable(err) {
			return nil, err
		}
		b.body = nil
		out.batches = append(out.batches, readBatchFile{b, n.n, err})
	}
	for _, n := range r.folds {
		f, c, err := openFold(j.dir, n)
		if err != nil && !unreadable(err) {
			return nil, err
		}
		out.folds = append(out.folds, readFoldFile{f, c, n.n, err})
	}
	return out, nil
}

// cover gives what the newest file says of the others; false if nobody knows.
func (r *readable) cover() (cover, bool) {
	if len(r.folds) == 0 {
		if len(r.batches) == 0 {
			return cover{}, true
		}
		b := r.batches[len(r.batches)-1]
		return b.cover, b.err == nil
	}
	f := r.folds[len(r.folds)-1]
	if len(r.batches) == 0 {
		return f.cover, f.err == nil
	}
	// Each of the two knows how far the other kind was when it was made.
	b := r.batches[len(r.batches)-1]
	switch {
	case b.err == nil && b.cover.nextFold > f.n:
		return b.cover, true
	case f.err == nil && (b.err == nil || f.seq >= b.n):
		return f.cover, true
	}
	return cover{}, false
}

func (j *Journal) reviveFolds(r *remains, read *readable, covered *cover) error {
	l := r.lane
	l.nextFold = max(covered.nextFold, 1)
	for i, n := range r.folds {
		l.nextFold = max(l.nextFold, n.n+1)
		f := read.folds[i]
		used, whole := covered.ofFold(n.n)
		var err error
		switch {
		case whole || f.err == nil && used >= len(f.blocks):
			err = j.dir.remove(n.String())
		case f.err == nil && (l.node == "" || l.node == f.node):
			l.node, l.seq = f.node, max(l.seq, f.seq)
			f.used = used
			l.folds = append(l.folds, f.fold)
		default:
			if f.err == nil {
				f.err = fmt.Errorf("%w: it is of another node", errFoldFile)
			}
			err = j.giveUp(n, f.err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// await takes a batch that was fixed before.
func (j *Journal) await(l *lane, n name, b *batchFile) error {
	info, err := os.Stat(j.dir.path(n.String()))
	if err != nil {
		return err
	}
	l.waiting = append(l.waiting, waitingBatch{n.n, b.clicks, info.Size(), info.ModTime()})
	return nil
}

func (j *Journal) giveUp(n name, why error) error {
	j.log.Error("clicks cannot be read", slog.String("file", n.String()), slog.Any("error", why))
	return j.quarantine(n.String())
}

// giveUpBoot puts segments and folds away before the files without which they mean
// nothing. Batches that can be read are shipped all the same.
func (j *Journal) giveUpBoot(r *remains, read *readable) error {
	for _, n := range r.segments {
		if err := j.quarantine(n.String()); err != nil {
			return err
		}
	}
	for i, n := range r.folds {
		if f := read.folds[i]; f.err == nil {
			j.counts.lost.Add(f.clicks())
			if err := j.quarantine(n.String()); err != nil {
				return err
			}
		}
	}
	if err := j.dir.sync(); err != nil {
		return err
	}
	for i, n := range r.folds {
		if err := read.folds[i].err; err != nil {
			if err := j.giveUp(n, err); err != nil {
				return err
			}
		}
	}
	for i, n := range r.batches {
		b := read.batches[i]
		var err error
		switch {
		case b.err != nil:
			err = j.giveUp(n, b.err)
		case n.state == fixed:
			r.lane.node = b.node
			err = j.await(r.lane, n, &b.batchFile)
		}
		if err != nil {
			return err
		}
	}
	if n := len(read.batches); n > 0 {
		r.lane.seq = read.batches[n-1].n
	}
	return j.reviveKept(r)
}

func (j *Journal) reviveSegment(l *lane, n name, c *cover) error {
	end, whole := c.of(n.n)
	if whole {
		return j.dir.remove(n.String())
	}
	s, node, err := openSegment(j.dir, n)
	if err == nil && l.node == "" {
		l.node = node
	}
	if err == nil && (node != l.node || end > s.size) {
		err = errors.Join(errSegmentHead, s.file.Close())
	}
	if err != nil && !unreadable(err) {
		return err
	}
	if err != nil {
		j.log.Error("a segment of the click journal cannot be read", slog.String("segment", n.String()), slog.Any("error", err))
		return j.quarantine(n.String())
	}
	s.covered = end
	s.damaged = s.junkBefore(end)
	l.segments = append(l.segments, s)
	if n.state == active {
		j.rename(s)
	}
	return nil
}
