package clicks

import (
	"errors"
	"slices"
	"sync"
	"time"

	"waypost/internal/failpoint"
)

// stream holds the files of one boot: its segments, compacted segments and batches. The
// current stream grows; the streams of earlier boots only shrink.
type stream struct {
	boot bootName
	node string

	// doubtful is a file that may exist although making it failed. Guarded by the
	// batcher's lock.
	doubtful name

	// Guarded by the catalog's lock:
	next          uint64 // number of the next segment
	segments      []*segment
	nextCompacted uint64
	compacted     []*compacted // the oldest first
	seq           uint64       // of the newest batch; 0: no batch
	waiting       []waitingBatch
	leaving       int        // segments, compacted ones too, whose files are still to be removed
	newestKept    bool       // the newest batch is acknowledged, and kept for its checkpoint
	retained      []retained // acknowledged batches, the oldest first

	// When the control plane last had every batch that it has acknowledged.
	confirmed time.Time
	// How often in a row the control plane refused the node's clicks, and until when the
	// shipper does not try again.
	refusals int
	backoff  time.Time
}

// waitingBatch has an identity and is not acknowledged.
type waitingBatch struct {
	seq, clicks uint64
	size        int64
	since       time.Time
}

func (s *stream) batch(seq uint64, st state) name { return name{batchKind, s.boot, seq, st} }

// empty reports whether all clicks of the stream are acknowledged. The lock is held.
func (s *stream) empty() bool { return len(s.segments)+len(s.compacted)+len(s.waiting) == 0 }

// needs reports whether a file is the newest batch, which is kept for its checkpoint too.
func (s *stream) needs(r retained) bool { return r.name.kind == batchKind && r.first == s.seq }

// checkpoint says where the clicks are now. The catalog's lock is held.
func (s *stream) checkpoint() checkpoint {
	c := checkpoint{next: s.next, nextCompacted: s.nextCompacted}
	for _, seg := range s.segments {
		c.segments = append(c.segments, coveredSegment{seg.name.n, seg.covered})
	}
	for _, f := range s.compacted {
		c.compacted = append(c.compacted, coveredCompacted{f.name.n, uint32(f.used)})
	}
	return c
}

// catalog knows the files of the journal by their boots. Its lock is never taken while a
// click is recorded, and never held over work of the disk.
type catalog struct {
	*base
	spares   *spares
	recorder *recorder
	current  *stream // set once, before the goroutines start

	mu       sync.Mutex
	streams  []*stream      // in the order of their boots
	closed   bool           // progress is unknown
	marks    []progressMark // by rising sequence; the first one is acknowledged, if any is
	gathered uint64         // clicks of this boot that left the segments, or were lost
	chores   []func()       // work of the disk that follows when the lock is released
}

// unlock releases the lock, and then does the chores of the caller.
func (c *catalog) unlock() {
	chores := c.chores
	c.chores = nil
	c.mu.Unlock()
	for _, do := range chores {
		do()
	}
}

// removeLater removes a file after the next unlock. The lock is held.
func (c *catalog) removeLater(file name, failed string) {
	c.chores = append(c.chores, func() {
		if err := c.dir.remove(file.String()); err != nil {
			c.diskFailed(failed, err)
		}
	})
}

// addStream adds the stream of the current boot.
func (c *catalog) addStream(s *stream) {
	c.current = s
	c.streams = append(c.streams, s)
}

// all returns the streams in the order of their boots.
func (c *catalog) all() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.streams)
}

// nextSegment returns the number of the next segment of the current boot.
func (c *catalog) nextSegment() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.next
}

// addSegment adds the next segment of the current boot.
func (c *catalog) addSegment(seg *segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.segments = append(c.current.segments, seg)
	c.current.next++
}

// currentSegments returns the segments of the current boot.
func (c *catalog) currentSegments() []*segment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.current.segments)
}

// sealCurrent ends all segments of the current boot, the spare ones too.
func (c *catalog) sealCurrent() {
	for _, seg := range c.currentSegments() {
		seg.done.Store(true)
	}
}

// close closes the files of all segments.
func (c *catalog) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return closeSegments(c.streams)
}

func closeSegments(streams []*stream) error {
	var errs []error
	for _, s := range streams {
		for _, seg := range s.segments {
			errs = append(errs, seg.unmap(), seg.file.Close())
		}
		s.segments = nil
	}
	return errors.Join(errs...)
}

// putBatch makes a batch the newest one of its stream. The lock is held.
func (c *catalog) putBatch(s *stream, b waitingBatch) {
	if s.newestKept && !c.cfg.retains() {
		c.removeLater(s.batch(s.seq, shipped), "cannot remove a shipped batch")
	}
	s.seq, s.newestKept = b.seq, false
	s.waiting = append(s.waiting, b)
	c.batchWaits.set()
}

// recordRead records how far a segment was read, once that is durable. The lock is held.
func (c *catalog) recordRead(s *stream, seg *segment, g gathered) {
	seg.covered = g.end
	if g.torn {
		c.counts.torn.Add(1)
		c.log.Warn("lost a click that a crash cut off", "segment", seg.name.String())
	}
	if g.err != nil {
		c.diskFailed("cannot read a segment of the click journal", g.err)
	}
	if (g.damaged || g.err != nil) && !seg.damaged {
		seg.damaged = true
		c.log.Error("found a damaged segment of the click journal: clicks in it may be lost", "segment", seg.name.String())
	}
	if g.done {
		c.retireSegment(s, seg)
	} else if seg.done.Load() && seg.name.state == active {
		c.chores = append(c.chores, func() { c.renameSealed(seg) })
	}
}

// renameSealed marks the segment as sealed in its file's name: no process records to it
// again. A failure is harmless: no process records to the segments of an earlier boot.
func (b *base) renameSealed(seg *segment) {
	to := seg.name.in(sealed)
	failpoint.Hit("seal segment: begun")
	defer failpoint.Hit("seal segment: done")
	if err := b.dir.rename(seg.name.String(), to.String()); err != nil {
		b.diskFailed("cannot rename a segment of the click journal", err)
		return
	}
	seg.name = to
}

// retireSpare removes a segment that was never used.
func (c *catalog) retireSpare(seg *segment) {
	c.mu.Lock()
	defer c.unlock()
	c.retireSegment(c.current, seg)
}

// retireSegment ends a segment that is sealed and covered as a whole. The lock is held.
func (c *catalog) retireSegment(s *stream, seg *segment) {
	if seg.bad.Load() {
		c.counts.diskErrors.Add(1)
		c.log.Error("cannot write the memory of a segment", "segment", seg.name.String())
	}
	s.segments = slices.DeleteFunc(s.segments, func(o *segment) bool { return o == seg })
	if s == c.current && c.spares.offer(seg) {
		return
	}
	c.leave(s, "cannot remove a segment of the click journal", func() error {
		if seg.damaged {
			return errors.Join(seg.unmap(), seg.file.Close(), c.quarantine(seg.name.String()))
		}
		return c.dir.discard(seg)
	})
}

// retireCompacted removes a file, or quarantines a damaged one, once all its clicks are
// in batches or in another compacted segment. The lock is held.
func (c *catalog) retireCompacted(s *stream, f *compacted) {
	s.compacted = slices.DeleteFunc(s.compacted, func(o *compacted) bool { return o == f })
	c.leave(s, "cannot remove a compacted segment of clicks", func() error {
		if f.damaged {
			return c.quarantine(f.name.String())
		}
		return c.dir.remove(f.name.String())
	})
}

// leave removes a file of clicks that are in a batch, after the next unlock. Until the
// file has gone, the stream keeps its newest batch, whose checkpoint says that the clicks
// are in a batch; a file that cannot be removed keeps it until the next start. The lock
// is held.
func (c *catalog) leave(s *stream, failed string, remove func() error) {
	s.leaving++
	c.chores = append(c.chores, func() {
		if err := remove(); err != nil {
			c.diskFailed(failed, err)
		} else {
			c.mu.Lock()
			s.leaving--
			c.mu.Unlock()
		}
		c.freed.set()
	})
}

// useBlock notes that the next block of a compacted segment is in a batch or unreadable.
// The lock is held.
func (c *catalog) useBlock(s *stream, f *compacted) {
	if f.used++; f.used == len(f.blocks) {
		c.retireCompacted(s, f)
	}
}

// isDrained reports whether a stream is of an earlier boot, holds no clicks and retains
// no batches. It does not change any more then. The lock is held.
func (c *catalog) isDrained(s *stream) bool {
	if s == c.current || !s.empty() || s.leaving > 0 {
		return false
	}
	n := len(s.retained)
	return !c.cfg.retains() || n == 0 || n == 1 && time.Since(s.retained[0].since) > c.cfg.KeepAcknowledged
}

// drained returns the streams that can be removed.
func (c *catalog) drained() (streams []*stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		if c.isDrained(s) {
			streams = append(streams, s)
		}
	}
	return streams
}

// removeDrained removes the drained streams. The newest batch of a stream goes last:
// without it, a segment that came back after a power cut would look as if it were in no
// batch. Only the shipper's goroutine removes streams, because a sync of the directory
// may take long: it delays no batch and no segment.
func (c *catalog) removeDrained() {
	drained := c.drained()
	if slices.ContainsFunc(drained, func(s *stream) bool { return s.newestKept }) {
		if err := c.dir.sync(); err != nil {
			c.diskFailed("cannot sync the directory of the click journal", err)
			return
		}
	}
	for _, s := range drained {
		if s.newestKept {
			if err := c.dir.remove(s.batch(s.seq, shipped).String()); err != nil {
				c.diskFailed("cannot remove the newest batch of an earlier boot", err)
				continue
			}
		}
		c.mu.Lock()
		c.streams = slices.DeleteFunc(c.streams, func(o *stream) bool { return o == s })
		c.mu.Unlock()
	}
}

// acknowledge takes the oldest waiting batch off a stream. Counted says that the control
// plane counted the batch; otherwise it never will.
func (c *catalog) acknowledge(s *stream, counted bool) {
	c.mu.Lock()
	b := s.waiting[0]
	newest := b.seq == s.seq
	c.mu.Unlock()
	file := s.batch(b.seq, fixed)
	retain := c.cfg.retains() && counted
	var err error
	failpoint.Hit("acknowledge batch: begun")
	if newest || retain {
		err = c.dir.rename(file.String(), file.in(shipped).String())
	} else {
		err = c.dir.remove(file.String())
	}
	failpoint.Hit("acknowledge batch: done")
	if err != nil {
		// The next boot will send the batch again, which changes nothing.
		c.diskFailed("cannot put an acknowledged batch away", err)
	}

	c.mu.Lock()
	defer c.unlock()
	s.newestKept = b.seq == s.seq
	if retain && err == nil {
		s.retained = append(s.retained, retained{file.in(shipped), b.seq, b.seq, b.size, time.Now()})
	}
	if newest && !s.newestKept && !retain { // the batcher has made another one since
		c.removeLater(file.in(shipped), "cannot remove a shipped batch")
	}
	s.waiting = s.waiting[1:]
	s.confirmed = time.Now()
	c.freed.set()
	c.mayBatch.set()
}

// oldest returns the batch to send next: of the oldest boot that is not backed off.
func (c *catalog) oldest(now time.Time) (*stream, waitingBatch, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		if len(s.waiting) > 0 && !s.backoff.After(now) {
			return s, s.waiting[0], true
		}
	}
	return nil, waitingBatch{}, false
}

// waits reports whether any batch is not acknowledged.
func (c *catalog) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.streams, func(s *stream) bool { return len(s.waiting) > 0 })
}

// unconfirmed returns a boot that ships nothing and was last confirmed before a time.
func (c *catalog) unconfirmed(before time.Time) *stream {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		if len(s.retained) > 0 && len(s.waiting) == 0 && s.confirmed.Before(before) && !s.backoff.After(now) {
			return s
		}
	}
	return nil
}

// backoffEnds returns when the first backed-off boot may ship again; zero if there is
// none.
func (c *catalog) backoffEnds(now time.Time) (until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		if s.backoff.After(now) && (until.IsZero() || s.backoff.Before(until)) {
			until = s.backoff
		}
	}
	return until
}

// backOff lets the boots of a stream's node wait for a pause that depends on the
// refusals.
func (c *catalog) backOff(of *stream, pause func(refusals int) time.Duration) (refusals int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	refusals = of.refusals + 1
	until := time.Now().Add(pause(refusals))
	for _, s := range c.streams {
		if s.node == of.node {
			s.refusals, s.backoff = refusals, until
		}
	}
	return refusals
}

// accepted ends the backoff of a stream's node.
func (c *catalog) accepted(of *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of.refusals == 0 {
		return
	}
	for _, s := range c.streams {
		if s.node == of.node {
			s.refusals, s.backoff = 0, time.Time{}
		}
	}
	of.refusals = 0 // it may have ended, and be in no list
}

// Nodes returns the names under which there are clicks that the control plane may be
// sent.
func (j *Journal) Nodes() []string {
	var names []string
	for _, s := range j.catalog.all() {
		if s.node != "" && !slices.Contains(names, s.node) { // "" if the boot cannot be read
			names = append(names, s.node)
		}
	}
	return names
}
