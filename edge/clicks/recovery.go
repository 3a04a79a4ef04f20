package clicks

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"waypost/internal/failpoint"
)

// recoverAll makes streams of the files of earlier boots, and returns the ordinal of the
// last boot. It fails only if the directory cannot be read or changed; a damaged file
// goes to quarantine.
func (j *Journal) recoverAll() (ordinal uint32, err error) {
	boots, err := j.survey()
	if err == nil {
		j.catalog.streams, err = j.reviveAll(boots)
	}
	for boot := range boots {
		ordinal = max(ordinal, boot.ordinal)
	}
	return ordinal, err
}

// survey sorts the directory's files by boot. Foreign files go to quarantine. Unfinished
// files are removed.
func (j *Journal) survey() (map[bootName]*remains, error) {
	entries, err := os.ReadDir(j.dir.root)
	if err != nil {
		return nil, err
	}
	boots := make(map[bootName]*remains)
	for _, e := range entries {
		file, unfinished := strings.CutPrefix(e.Name(), temporary)
		n, ok := parseName(file)
		switch {
		case e.IsDir():
		case unfinished:
			err = j.dir.remove(e.Name())
		case ok:
			r := boots[n.boot]
			if r == nil {
				r = &remains{stream: &stream{boot: n.boot}}
				boots[n.boot] = r
			}
			r.addFile(n)
		default:
			err = j.quarantine(e.Name())
		}
		if err != nil {
			return nil, err
		}
	}
	return boots, nil
}

// reviveAll makes streams of boots, in order.
func (j *Journal) reviveAll(boots map[bootName]*remains) ([]*stream, error) {
	var streams []*stream
	for _, r := range boots {
		streams = append(streams, r.stream)
		if err := j.revive(r); err != nil {
			return nil, fmt.Errorf("recover boot %s: %w", r.stream.boot, errors.Join(err, closeSegments(streams)))
		}
	}
	slices.SortFunc(streams, func(a, b *stream) int { return a.boot.compare(b.boot) })
	return streams, nil
}

// remains are the files of one boot.
type remains struct {
	stream                       *stream
	segments, compacted, batches []name
	packs, shipped               []name // shipped: the acknowledged ones of batches
}

func (r *remains) addFile(n name) {
	switch n.kind {
	case segmentKind:
		r.segments = append(r.segments, n)
	case compactedKind:
		r.compacted = append(r.compacted, n)
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

// revive makes a stream of a boot's files. The newest of its batches and compacted
// segments says where the clicks are. If it cannot be read, the segments and compacted
// segments go to quarantine too: a visibly lost click is better than one that is counted
// twice.
func (j *Journal) revive(r *remains) error {
	failpoint.Hit("recover boot: begun")
	defer failpoint.Hit("recover boot: done")
	slices.SortFunc(r.segments, byNumber)
	slices.SortFunc(r.compacted, byNumber)
	slices.SortFunc(r.batches, byNumber)
	slices.SortFunc(r.packs, byNumber)
	slices.SortFunc(r.shipped, byNumber)
	read, err := j.readRemains(r)
	if err != nil {
		return err
	}
	covered, known := read.checkpoint()
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
			err = j.await(r.stream, n, &b.batchFile)
		default:
			r.stream.newestKept = last
		}
		if err != nil {
			return err
		}
		r.stream.node = cmp.Or(b.node, r.stream.node)
		if last {
			r.stream.seq = n.n
		}
	}
	if err := j.reviveRetained(r); err != nil {
		return err
	}
	if err := j.reviveCompacted(r, read, &covered); err != nil {
		return err
	}
	for _, n := range r.segments {
		r.stream.next = max(r.stream.next, n.n+1)
		if err := j.reviveSegment(r.stream, n, &covered); err != nil {
			return err
		}
	}
	if l := r.stream; len(l.segments)+len(l.compacted)+len(l.waiting) > 0 {
		j.log.Info("found clicks of an earlier start", "boot", l.boot.String(),
			"segments", len(l.segments), "compacted", len(l.compacted), "batches", len(l.waiting))
	}
	return nil
}

// readable are a boot's batches and compacted segments, as far as they can be read.
type readable struct {
	batches   []readBatchFile
	compacted []readCompactedFile
}

type readBatchFile struct {
	batchFile
	n   uint64
	err error
}

type readCompactedFile struct {
	*compacted
	checkpoint checkpoint
	n          uint64
	err        error
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
	for _, n := range r.compacted {
		f, c, err := openCompacted(j.dir, n)
		if err != nil && !unreadable(err) {
			return nil, err
		}
		out.compacted = append(out.compacted, readCompactedFile{f, c, n.n, err})
	}
	return out, nil
}

// checkpoint returns the checkpoint of the newest file; false if it cannot be read.
func (r *readable) checkpoint() (checkpoint, bool) {
	if len(r.compacted) == 0 {
		if len(r.batches) == 0 {
			return checkpoint{}, true
		}
		b := r.batches[len(r.batches)-1]
		return b.checkpoint, b.err == nil
	}
	f := r.compacted[len(r.compacted)-1]
	if len(r.batches) == 0 {
		return f.checkpoint, f.err == nil
	}
	// Each of the two says how far the other kind was when it was made.
	b := r.batches[len(r.batches)-1]
	switch {
	case b.err == nil && b.checkpoint.nextCompacted > f.n:
		return b.checkpoint, true
	case f.err == nil && (b.err == nil || f.seq >= b.n):
		return f.checkpoint, true
	}
	return checkpoint{}, false
}

func (j *Journal) reviveCompacted(r *remains, read *readable, covered *checkpoint) error {
	l := r.stream
	l.nextCompacted = max(covered.nextCompacted, 1)
	for i, n := range r.compacted {
		l.nextCompacted = max(l.nextCompacted, n.n+1)
		f := read.compacted[i]
		used, whole := covered.ofCompacted(n.n)
		var err error
		switch {
		case whole || f.err == nil && used >= len(f.blocks):
			err = j.dir.remove(n.String())
		case f.err == nil && (l.node == "" || l.node == f.node):
			l.node, l.seq = f.node, max(l.seq, f.seq)
			f.used = used
			l.compacted = append(l.compacted, f.compacted)
		default:
			if f.err == nil {
				f.err = fmt.Errorf("%w: it is of another node", errCompacted)
			}
			err = j.giveUp(n, f.err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// await takes a batch that an earlier boot made.
func (j *Journal) await(l *stream, n name, b *batchFile) error {
	info, err := os.Stat(j.dir.path(n.String()))
	if err != nil {
		return err
	}
	l.waiting = append(l.waiting, waitingBatch{n.n, b.clicks, info.Size(), info.ModTime()})
	return nil
}

func (j *Journal) giveUp(n name, why error) error {
	j.log.Error("cannot read clicks", "file", n.String(), "error", why)
	return j.quarantine(n.String())
}

// giveUpBoot quarantines segments and compacted segments first, and then the files
// without which they mean nothing. Batches that can be read are still shipped.
func (j *Journal) giveUpBoot(r *remains, read *readable) error {
	for _, n := range r.segments {
		if err := j.quarantine(n.String()); err != nil {
			return err
		}
	}
	for i, n := range r.compacted {
		if f := read.compacted[i]; f.err == nil {
			j.counts.lost.Add(f.clicks())
			if err := j.quarantine(n.String()); err != nil {
				return err
			}
		}
	}
	if err := j.dir.sync(); err != nil {
		return err
	}
	for i, n := range r.compacted {
		if err := read.compacted[i].err; err != nil {
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
			r.stream.node = b.node
			err = j.await(r.stream, n, &b.batchFile)
		}
		if err != nil {
			return err
		}
	}
	if n := len(read.batches); n > 0 {
		r.stream.seq = read.batches[n-1].n
	}
	return j.reviveRetained(r)
}

func (j *Journal) reviveSegment(l *stream, n name, c *checkpoint) error {
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
		j.log.Error("cannot read a segment of the click journal", "segment", n.String(), "error", err)
		return j.quarantine(n.String())
	}
	s.covered = end
	s.damaged = s.junkBefore(end)
	l.segments = append(l.segments, s)
	if n.state == active {
		j.renameSealed(s)
	}
	return nil
}
