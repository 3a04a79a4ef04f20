package clicks

import (
	"bytes"
	"errors"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"waypost"
	"waypost/internal/pacer"
)

const (
	// maxAhead bounds the waiting batches of a boot, before its segments are compacted.
	maxAhead = 4

	// maxUncompacted bounds them while batches are made of a compacted segment.
	maxUncompacted = 2
)

// batcher makes batches of recorded clicks while the control plane keeps up, and
// compacted segments otherwise. It also syncs segments that are covered by neither.
type batcher struct {
	*base
	catalog   *catalog
	retention *retention
	spares    *spares
	recorder  *recorder

	// mu is held while batches and compacted segments are made, and taken before the
	// catalog's lock. The batcher's goroutine holds it; once that has ended, the goroutine
	// that seals the journal or ships the rest does; and the compactor, to replace compacted
	// segments.
	mu       sync.Mutex
	pace     pacer.Pacer // guarded by mu, as are the following
	sums     *tally
	buf      []byte // of a segment
	packer   *packer
	file     []byte // of a batch
	compact  *compactedWriter
	reported uint64 // dropped clicks that batches have reported
	commits  uint64 // of batches and compacted segments

	// The goroutine's own:
	failing     bool // a batch or a compacted segment could not be made, and none was since
	recent      rate // of segments
	most        peak
	dropsLogged uint64
	loggedAt    time.Time
}

func newBatcher(b *base, c *catalog, r *retention, s *spares, rec *recorder) (*batcher, error) {
	out := &batcher{
		base: b, catalog: c, retention: r, spares: s, recorder: rec,
		pace: pacer.Pacer{Stop: b.stop}, recent: rate{began: time.Now()},
	}
	var err error
	if out.packer, err = newPacker(&out.pace); err != nil {
		return nil, err
	}
	out.sums = newTally(b.cfg.Profiler, &out.pace)
	out.compact = newCompactedWriter(out.packer)
	return out, nil
}

func (b *batcher) close() error { return b.packer.zstd.Close() }

// run makes batches and syncs segments until the journal stops.
func (b *batcher) run() {
	flush := time.NewTicker(b.cfg.FlushInterval)
	defer flush.Stop()
	syncs := time.NewTicker(max(b.cfg.SyncInterval/2, 1))
	defer syncs.Stop()
	b.flush(false)
	for {
		select {
		case <-b.stop:
			return
		case <-b.mayBatch:
			b.flush(false)
		case <-flush.C:
			b.flush(true)
		case <-syncs.C:
			select {
			case <-flush.C: // first, because a batch needs no sync of its segments
				b.flush(true)
			default:
			}
			b.syncSegments(false)
		}
	}
}

// flush advances all streams. Due says that the most recent clicks should become a batch
// too, unless one waits.
func (b *batcher) flush(due bool) {
	b.mu.Lock()
	before := b.commits
	b.pace.Begin(b.cfg.FlushInterval)
	err := b.advance(due)
	committed := b.commits > before
	if due {
		b.retention.expire(time.Now(), &b.pace)
	}
	b.mu.Unlock()
	if due {
		now := time.Now()
		b.spares.keepReusable(min(int(b.most.of(b.recent.of(b.spares.takes.Load(), now), now, b.cfg.reuseFor)), cap(b.spares.ready)))
		b.logDrops(now)
	}
	switch {
	case err != nil:
		b.failed(err)
	case b.failing && committed:
		b.failing = false
		b.spares.held.Store(false)
		b.freed.set()
		b.log.Info("can make batches of clicks again")
	}
}

// advanceNow advances all streams, when a caller waits for it.
func (b *batcher) advanceNow(due bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pace.Begin(0)
	return b.advance(due)
}

// advance advances all streams. The lock is held.
func (b *batcher) advance(due bool) error {
	var errs []error
	for _, s := range b.catalog.all() {
		errs = append(errs, b.advanceStream(s, due))
	}
	return errors.Join(errs...)
}

// failed logs, once, that batches cannot be made. On a full disk it frees the spare
// segments, because a batch needs far less space than they take.
func (b *batcher) failed(err error) {
	b.counts.diskErrors.Add(1)
	if !b.failing {
		b.failing = true
		b.log.Error("cannot make a batch of clicks: its clicks stay in the journal", "error", err)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		b.spares.held.Store(true)
		b.spares.release()
	}
}

// logDrops logs, at most once a second, that clicks were dropped.
func (b *batcher) logDrops(now time.Time) {
	dropped := b.recorder.dropped.Load()
	if dropped == b.dropsLogged || now.Sub(b.loggedAt) < time.Second {
		return
	}
	b.log.Error("dropped clicks, because there is no room for them", "clicks", dropped-b.dropsLogged, "total", dropped)
	b.dropsLogged, b.loggedAt = dropped, now
}

// syncSegments syncs clicks that are in no batch and were already recorded at its last
// call, or all clicks. While batches are made more often, it finds no such click. After a
// failed sync it never syncs that segment again, because the system would then report
// success. The segment takes no further clicks, and its clicks go into a batch, in a file
// of its own.
func (b *batcher) syncSegments(all bool) {
	for _, seg := range b.catalog.currentSegments() {
		tail, due := seg.tail.Load(), seg.seen
		seg.seen = tail
		if all {
			due = tail
		}
		if due <= max(seg.covered, seg.synced) || seg.unsound {
			continue
		}
		if err := b.cfg.disk.sync(seg.file); err != nil {
			b.diskFailed("cannot sync a segment of the click journal", err)
			seg.unsound = true
			b.recorder.giveUp(seg)
			continue
		}
		seg.synced = tail
	}
}

// advanceStream brings a stream's clicks closer to the control plane. While batches wait,
// sealed segments become batches, up to a few, and are compacted then, so that clicks
// without an identity can still be made smaller. While none waits, the oldest compacted
// segment becomes one, block by block, or else the segments do: all of their clicks if
// that is due. The lock is held.
func (b *batcher) advanceStream(s *stream, due bool) error {
	c := b.catalog
	for {
		c.mu.Lock()
		waiting := len(s.waiting)
		ready := slices.ContainsFunc(s.segments, func(seg *segment) bool { return seg.done.Load() })
		n := slices.IndexFunc(s.compacted, func(f *compacted) bool { return !f.merging })
		var oldest *compacted
		if n >= 0 {
			oldest = s.compacted[n]
		}
		if oldest != nil && waiting < maxUncompacted {
			oldest.batching = true // so that no merge takes it now
		}
		some := len(s.compacted)
		c.mu.Unlock()

		var err error
		switch {
		case oldest != nil && waiting < maxUncompacted:
			err = b.batchBlock(s, oldest)
		case some == 0 && (ready && waiting < maxAhead || due && waiting == 0):
			due, err = b.batchSegments(s)
		case ready:
			err = b.compactSegments(s)
		default:
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.isDrained(s) {
				b.batchWaits.set() // so that the shipper removes the stream
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// batchSegments makes the next batch of the clicks that are in the stream's segments and
// not covered yet. It reports whether there may be more for another one.
func (b *batcher) batchSegments(s *stream) (more bool, err error) {
	c := b.catalog
	m := c.beginMark()
	segments, results, point, more := b.gatherAll(s)
	dropped := b.undropped(s)
	made := b.sums.clicks() > 0 || dropped > 0
	var f batchFile
	if made {
		batch := b.sums.batch(false)
		batch.Dropped = dropped
		if f, err = b.commitBatch(s, &batch, b.sums.clicks(), point); err != nil {
			return false, err
		}
	}
	c.mu.Lock()
	defer c.unlock()
	if made {
		c.putBatch(s, waitingBatch{f.seq, f.clicks, f.size(), time.Now()})
	}
	for i, seg := range segments {
		c.recordRead(s, seg, results[i])
	}
	if s == c.current && !more {
		c.leaveSegments(m, b.sums.clicks())
		c.endMark(m)
	}
	return more, nil
}

// compactSegments makes a compacted segment of these clicks.
func (b *batcher) compactSegments(s *stream) error {
	c := b.catalog
	m := c.beginMark()
	segments, results, point, more := b.gatherAll(s)
	var made *compacted
	if b.sums.clicks() > 0 {
		file, err := b.dir.createTemporary(name{compactedKind, s.boot, s.nextCompacted, sealed}.String())
		if err != nil {
			return err
		}
		b.compact.reset(file, s, exactGrade)
		if err := b.compact.writeTally(b.sums); err != nil {
			return errors.Join(err, b.dir.abandon(file))
		}
		if made, err = b.commitCompacted(s, file, b.compact, &point); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.unlock()
	if made != nil {
		s.compacted = append(s.compacted, made)
		b.compacted.set()
	}
	for i, seg := range segments {
		c.recordRead(s, seg, results[i])
	}
	if s == c.current && !more {
		c.leaveSegments(m, b.sums.clicks())
	}
	return nil
}

// batchBlock makes the next batch of the next block of a compacted segment. It skips a
// block that cannot be read; the file goes to quarantine at its end.
func (b *batcher) batchBlock(s *stream, f *compacted) error {
	c := b.catalog
	batch, err := b.readBlock(f)
	if err != nil && !unreadable(err) {
		return err
	}
	if err != nil {
		b.lose(f, f.used, err)
		c.mu.Lock()
		defer c.unlock()
		f.damaged = true
		c.useBlock(s, f)
		return nil
	}
	c.mu.Lock()
	f.used++
	point := s.checkpoint()
	f.used--
	c.mu.Unlock()
	if f.used+1 == len(f.blocks) {
		point.drop(f)
	}
	batch.Dropped = b.undropped(s)
	made, err := b.commitBatch(s, &batch, f.blocks[f.used].clicks, point)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.unlock()
	c.putBatch(s, waitingBatch{made.seq, made.clicks, made.size(), time.Now()})
	c.useBlock(s, f)
	return nil
}

func (b *batcher) readBlock(f *compacted) (waypost.ClickBatch, error) {
	file, err := os.Open(b.dir.path(f.name.String()))
	if err != nil {
		return waypost.ClickBatch{}, err
	}
	batch, err := f.readBlock(file, b.unzip, f.used, &b.pace)
	return batch, errors.Join(err, file.Close())
}

// undropped counts the dropped clicks that no batch of a boot has reported.
func (b *batcher) undropped(s *stream) uint64 {
	if s != b.catalog.current {
		return 0
	}
	return b.recorder.dropped.Load() - b.reported
}

// fix assigns a batch its identity and its bytes, which are valid until the next call.
func (b *batcher) fix(s *stream, seq uint64, batch *waypost.ClickBatch, clicks uint64, point checkpoint) batchFile {
	batch.Node, batch.Boot, batch.Seq = s.node, s.boot.id, seq
	return batchFile{boot: s.boot.id, node: s.node, seq: seq, clicks: clicks, checkpoint: point, body: b.packer.pack(batch)}
}

// empty returns the body of an empty batch.
func (b *batcher) empty(s *stream, seq uint64) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.fix(s, seq, &waypost.ClickBatch{}, 0, checkpoint{})
	return bytes.Clone(f.body)
}

// commitBatch makes the next batch durable. Nothing of it may be sent before commitBatch
// returns without an error, and nothing may be changed afterwards.
func (b *batcher) commitBatch(s *stream, batch *waypost.ClickBatch, clicks uint64, point checkpoint) (batchFile, error) {
	b.catalog.mu.Lock()
	seq := s.seq + 1
	b.catalog.mu.Unlock()
	f := b.fix(s, seq, batch, clicks, point)
	n := s.batch(seq, fixed)
	file, err := b.dir.createTemporary(n.String())
	if err != nil {
		return batchFile{}, err
	}
	b.file = f.append(b.file[:0])
	if err := writePaced(file, b.file, &b.pace); err != nil {
		return batchFile{}, errors.Join(err, b.dir.abandon(file))
	}
	if err := b.commit(s, n, file); err != nil {
		return batchFile{}, err
	}
	b.counts.batches.Add(1)
	b.reported += batch.Dropped
	return f, nil
}

// commitCompacted completes the file of a compacted segment and makes it durable. The
// checkpoint does not include it.
func (b *batcher) commitCompacted(s *stream, file *os.File, w *compactedWriter, point *checkpoint) (*compacted, error) {
	b.catalog.mu.Lock()
	f := &compacted{
		name: name{compactedKind, s.boot, s.nextCompacted, sealed}, node: s.node, grade: w.grade, seq: s.seq, blocks: slices.Clone(w.blocks),
	}
	b.catalog.mu.Unlock()
	foot := f.foot(point)
	if _, err := file.Write(foot); err != nil {
		return nil, errors.Join(err, b.dir.abandon(file))
	}
	f.size = w.size + int64(len(foot))
	if err := b.commit(s, f.name, file); err != nil {
		return nil, err
	}
	b.catalog.mu.Lock()
	defer b.catalog.mu.Unlock()
	s.nextCompacted++
	return f, nil
}

// commit makes a batch or a compacted segment durable. When it fails, nothing has changed
// for the journal: the file may exist, but has not been used. It is made again under the
// same name, or removed before another one is made.
func (b *batcher) commit(s *stream, n name, f *os.File) error {
	if s.doubtful != (name{}) && s.doubtful != n {
		if err := errors.Join(b.dir.remove(s.doubtful.String()), b.dir.sync()); err != nil {
			return errors.Join(err, b.dir.abandon(f))
		}
	}
	s.doubtful = n
	if err := b.dir.finish(f, n.String()); err != nil {
		return errors.Join(err, b.dir.abandon(f))
	}
	s.doubtful = name{}
	b.commits++
	return f.Close()
}

// forever is for work without a deadline.
const forever = time.Duration(math.MaxInt64 / 4)
