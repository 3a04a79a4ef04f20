package clicks

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
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
	lane              *lane
	segments, batches []name
}

func (r *remains) add(n name) {
	if n.kind == segmentKind {
		r.segments = append(r.segments, n)
	} else {
		r.batches = append(r.batches, n)
	}
}

func byNumber(a, b name) int {
	return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.state, b.state))
}

// revive makes a lane of a boot's files. Its newest batch says which part of the
// segments is in batches. If that cannot be read nobody knows, and the segments go
// to quarantine with it: a click is rather lost in sight than counted twice.
func (j *Journal) revive(r *remains) error {
	slices.SortFunc(r.segments, byNumber)
	slices.SortFunc(r.batches, byNumber)
	var covered cover
	for i, n := range r.batches {
		last := i == len(r.batches)-1
		b, err := readBatch(j.dir, n)
		switch {
		case err != nil && !unreadable(err):
		case err != nil && last:
			return j.giveUpBoot(r.segments, n, err)
		case err != nil:
			err = j.giveUpBatch(n, err)
		case n.state == fixed:
			err = j.await(r.lane, n, &b)
		case last:
			r.lane.kept = true
		default: // one that was followed by others
			err = j.dir.remove(n.String())
		}
		if err != nil {
			return err
		}
		r.lane.node = cmp.Or(b.node, r.lane.node)
		if last {
			r.lane.seq, covered = n.n, b.cover
		}
	}
	for _, n := range r.segments {
		r.lane.next = max(r.lane.next, n.n+1)
		if err := j.reviveSegment(r.lane, n, &covered); err != nil {
			return err
		}
	}
	if len(r.lane.segments) > 0 || len(r.lane.waiting) > 0 {
		j.log.Info("clicks of an earlier start were found", slog.String("boot", r.lane.boot.String()),
			slog.Int("segments", len(r.lane.segments)), slog.Int("batches", len(r.lane.waiting)))
	}
	return nil
}

// await takes a batch that was fixed before.
func (j *Journal) await(l *lane, n name, b *batchFile) error {
	info, err := os.Stat(j.dir.path(n.String()))
	if err != nil {
		return err
	}
	l.waiting = append(l.waiting, waitingBatch{n.n, b.clicks, info.ModTime()})
	return nil
}

func (j *Journal) giveUpBatch(n name, why error) error {
	j.log.Error("a batch of clicks cannot be read", slog.String("batch", n.String()), slog.Any("error", why))
	return j.quarantine(n.String())
}

// giveUpBoot puts segments away before the batch without which they mean nothing.
func (j *Journal) giveUpBoot(segments []name, newest name, why error) error {
	for _, n := range segments {
		if err := j.quarantine(n.String()); err != nil {
			return err
		}
	}
	if err := j.dir.sync(); err != nil {
		return err
	}
	return j.giveUpBatch(newest, why)
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
