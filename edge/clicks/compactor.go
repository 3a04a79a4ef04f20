package clicks

import (
	"cmp"
	"errors"
	"math/bits"
	"os"
	"slices"

	"waypost"
	"waypost/internal/failpoint"
	"waypost/internal/pacer"
)

const (
	// mergeWidth compacted segments of one size become one. So a click is
	// written again only as often as its file grows by that factor, or loses detail.
	mergeWidth = 8

	// maxInputs bounds the inputs of a merge, because each input has a block in memory.
	maxInputs = 16

	// exactShare and detailShare are the parts of the quota, one of that many, that
	// compacted segments may take while clicks have their time, and their profiles. A part
	// of the rest is reserved for the output of merges.
	exactShare        = 4
	detailShare       = 2
	compactionReserve = 8

	// From this percentage of the quota on, compacted segments become as small as possible.
	pressedAt = 60
)

// compactor keeps compacted segments few and, when room gets scarce, small.
type compactor struct {
	*base
	catalog   *catalog
	retention *retention
	batcher   *batcher

	// The goroutine's own:
	pace   pacer.Pacer
	packer *packer
	writer *compactedWriter
	who    []waypost.Visitor
}

func newCompactor(b *base, c *catalog, r *retention, bat *batcher) (*compactor, error) {
	out := &compactor{base: b, catalog: c, retention: r, batcher: bat, pace: pacer.Pacer{Stop: b.stop}}
	var err error
	if out.packer, err = newPacker(&out.pace); err != nil {
		return nil, err
	}
	out.writer = newCompactedWriter(out.packer)
	return out, nil
}

func (c *compactor) close() error { return c.packer.zstd.Close() }

// run merges compacted segments until the journal stops.
func (c *compactor) run() {
	failing := false
	for {
		select {
		case <-c.stop:
			return
		case <-c.compacted:
		}
		for {
			job := c.next()
			if job == nil {
				break
			}
			err := c.merge(job)
			if errors.Is(err, errSealing) {
				return
			}
			if err == nil {
				failing = false
				continue
			}
			c.counts.diskErrors.Add(1)
			if !failing { // the next compacted segment causes another try
				c.log.Error("cannot merge compacted segments of clicks", "error", err)
			}
			failing = true
			break
		}
	}
}

// mergeJob is a merge of compacted segments of a stream into one of a grade.
type mergeJob struct {
	stream *stream
	inputs []*compacted // not empty
	grade  grade
	urgent bool // segments may soon wait for the room that it makes
}

// next claims compacted segments to be merged, if some should be.
func (c *compactor) next() *mergeJob {
	used, err := c.dir.used()
	if err != nil {
		return nil
	}
	free := c.cfg.MaxBytes - used - c.cfg.SegmentBytes // one is left for batches
	if free < c.cfg.exactBytes {
		free += c.retention.makeRoom(c.cfg.exactBytes - free)
	}
	c.catalog.mu.Lock()
	defer c.catalog.mu.Unlock()
	pressed := used > c.cfg.MaxBytes/100*pressedAt
	job := c.pick(free, pressed)
	if job != nil {
		job.urgent = pressed
		for _, f := range job.inputs {
			f.merging = true
		}
	}
	return job
}

// pick finds compacted segments to be merged. The catalog's lock is held.
func (c *compactor) pick(free int64, pressed bool) *mergeJob {
	var sizes [totalGrade + 1]int64
	for _, s := range c.catalog.streams {
		for _, f := range s.compacted {
			sizes[f.grade] += f.size
		}
	}
	if sizes[exactGrade] > c.cfg.exactBytes {
		if job := c.coarsen(exactGrade, quarterGrade, free); job != nil {
			return job
		}
	}
	if sizes[exactGrade]+sizes[quarterGrade] > c.cfg.MaxBytes/detailShare {
		if job := c.coarsen(quarterGrade, totalGrade, free); job != nil {
			return job
		}
	}
	if job := c.oneSize(free); job != nil || !pressed {
		return job
	}
	if job := c.smallest(free); job != nil {
		return job
	}
	if job := c.coarsen(quarterGrade, totalGrade, free); job != nil {
		return job
	}
	return c.coarsen(exactGrade, quarterGrade, free)
}

// coarsen finds the oldest compacted segments of a grade, as far as there is room to
// write their merge.
func (c *compactor) coarsen(from, to grade, free int64) *mergeJob {
	for _, s := range c.catalog.streams {
		job := &mergeJob{stream: s, grade: to}
		for _, f := range s.compacted {
			if f.grade == from && f.whole() && len(job.inputs) < maxInputs && free >= f.size {
				job.inputs = append(job.inputs, f)
				free -= f.size
			}
		}
		if len(job.inputs) > 0 {
			return job
		}
	}
	return nil
}

// oneSize finds mergeWidth compacted segments of one grade and about one size.
func (c *compactor) oneSize(free int64) *mergeJob {
	for _, s := range c.catalog.streams {
		for g := quarterGrade; g <= totalGrade; g++ {
			var of [22][]*compacted // 64 bits, 3 for each factor of 8
			for _, f := range s.compacted {
				if f.grade != g || !f.whole() {
					continue
				}
				size := bits.Len64(f.clicks()) / 3
				if of[size] = append(of[size], f); len(of[size]) == mergeWidth && sizeOf(of[size]) <= free {
					return &mergeJob{stream: s, inputs: of[size], grade: g}
				}
			}
		}
	}
	return nil
}

// smallest finds compacted segments of totals of any size, except one that is so much
// larger than the others that it is not worth writing again.
func (c *compactor) smallest(free int64) *mergeJob {
	for _, s := range c.catalog.streams {
		var some []*compacted
		for _, f := range s.compacted {
			if f.grade == totalGrade && f.whole() {
				some = append(some, f)
			}
		}
		slices.SortFunc(some, func(a, b *compacted) int { return cmp.Compare(a.size, b.size) })
		var sum int64
		for i, f := range some {
			if i == maxInputs || i > 0 && f.size > 4*sum || sum+f.size > free {
				some = some[:i]
				break
			}
			sum += f.size
		}
		if len(some) > 1 {
			return &mergeJob{stream: s, inputs: some, grade: totalGrade}
		}
	}
	return nil
}

func sizeOf(files []*compacted) (sum int64) {
	for _, f := range files {
		sum += f.size
	}
	return sum
}

// merge makes one compacted segment of several, and removes them once the new segment is
// durable. It may take long, so it takes the batcher's lock only at its end. If the
// journal is sealed before that, it leaves the files as they were.
func (c *compactor) merge(job *mergeJob) (err error) {
	defer func() {
		if err != nil {
			c.catalog.mu.Lock()
			defer c.catalog.mu.Unlock()
			for _, f := range job.inputs {
				f.merging = false
			}
			c.mayBatch.set()
		}
	}()
	s := job.stream
	within := forever
	if job.urgent {
		within = 0
	}
	c.pace.Begin(within)
	// It gets its number at the end, so it has a name that no other file can have.
	out, err := c.dir.createTemporary(name{compactedKind, s.boot, ^uint64(0), sealed}.String())
	if err != nil {
		return err
	}
	c.writer.reset(out, s, job.grade)
	clicks, err := c.mergeInto(c.writer, job)
	if err == nil {
		err = c.cfg.disk.sync(out) // most of its bytes
	}
	if err != nil {
		return errors.Join(err, c.dir.abandon(out))
	}
	c.batcher.mu.Lock()
	defer c.batcher.mu.Unlock()
	c.catalog.mu.Lock()
	point := s.checkpoint()
	c.catalog.mu.Unlock()
	for _, f := range job.inputs {
		point.drop(f)
	}
	failpoint.Hit("merge compacted: begun")
	made, err := c.batcher.commitCompacted(s, out, c.writer, &point)
	if err != nil {
		return err
	}
	failpoint.Hit("merge compacted: durable")
	if job.inputs[0].grade != job.grade {
		c.counts.coarsened[job.grade].Add(clicks)
	}
	c.catalog.mu.Lock()
	defer c.catalog.unlock()
	at := slices.IndexFunc(s.compacted, func(f *compacted) bool { return slices.Contains(job.inputs, f) })
	s.compacted = slices.Insert(s.compacted, at, made) // in the place of the oldest input
	for _, f := range job.inputs {
		c.catalog.retireCompacted(s, f)
	}
	c.mayBatch.set()
	return nil
}

var errSealing = errors.New("the journal is being sealed")

// mergeInto writes the clicks of the job's inputs, and returns their number.
func (c *compactor) mergeInto(w *compactedWriter, job *mergeJob) (clicks uint64, err error) {
	sources := make([]*source, len(job.inputs))
	for i, f := range job.inputs {
		file, err := os.Open(c.dir.path(f.name.String()))
		if err != nil {
			return 0, err
		}
		defer file.Close()
		sources[i] = &source{c: c, compacted: f, file: file, at: -1}
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
		if err := c.mergeLink(w, *first, sources); err != nil {
			return 0, err
		}
		c.pace.Step()
	}
}

// mergeLink writes the sources' clicks on one link.
func (c *compactor) mergeLink(w *compactedWriter, l waypost.LinkClicks, sources []*source) error {
	for _, s := range sources {
		if o := s.peek(&l); o != nil {
			l.Last = max(l.Last, o.Last)
		}
	}
	if err := w.beginLink(&l); err != nil {
		return err
	}
	c.who = c.who[:0]
	for _, s := range sources {
		for o := s.peek(&l); o != nil; o = s.peek(&l) {
			for _, r := range o.Rows {
				if err := w.row(&s.profiles, r); err != nil {
					return err
				}
			}
			c.who = append(c.who, o.Visitors...)
			if err := s.next(); err != nil {
				return err
			}
		}
	}
	for _, v := range c.who {
		if err := w.visitor(v); err != nil {
			return err
		}
	}
	w.endLink()
	return nil
}

// source reads a compacted segment, link by link.
type source struct {
	c         *compactor
	compacted *compacted
	file      *os.File
	block     int
	batch     waypost.ClickBatch
	at        int
	profiles  dictionary
}

// link returns the current link; nil at the end.
func (s *source) link() *waypost.LinkClicks {
	if s.at < len(s.batch.Links) {
		return &s.batch.Links[s.at]
	}
	return nil
}

// peek returns the current link if it is l.
func (s *source) peek(l *waypost.LinkClicks) *waypost.LinkClicks {
	if o := s.link(); o != nil && compareLinks(o, l) == 0 {
		return o
	}
	return nil
}

// next goes to the next link, or to the first one. It skips a block that cannot be read;
// the file goes to quarantine when it is retired.
func (s *source) next() error {
	if s.at++; s.at < len(s.batch.Links) {
		return nil
	}
	for s.batch = (waypost.ClickBatch{}); s.block < len(s.compacted.blocks); s.block++ {
		select {
		case <-s.c.stop:
			return errSealing
		default:
		}
		b, err := s.compacted.readBlock(s.file, s.c.unzip, s.block, &s.c.pace)
		if err == nil && len(b.Links) > 0 {
			s.block++
			s.batch, s.at, s.profiles = b, 0, newDictionary(b.Profiles)
			return nil
		}
		if err != nil && !unreadable(err) {
			return err
		}
		if err != nil {
			s.c.lose(s.compacted, s.block, err)
			s.c.catalog.mu.Lock()
			s.compacted.damaged = true
			s.c.catalog.mu.Unlock()
		}
	}
	return nil
}
