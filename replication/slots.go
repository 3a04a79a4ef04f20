package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"sync"
	"time"

	"waypost"
)

const (
	// maxSlot bounds a single slot, which cannot be halved, in bytes of frames.
	maxSlot = 512 << 20
	// maxAhead bounds the ranges of a snapshot that are read, or held, while one is sent.
	maxAhead = 2
)

var (
	// errTooWide says that a range of slots is too large, and has to be read in halves.
	errTooWide = errors.New("the range of slots is too wide")
	// errAllRead says that there is no further range.
	errAllRead = errors.New("all ranges are read")
)

// slotReader reads ranges of slots from the source, for snapshots and sums.
type slotReader struct {
	source    Source
	encoder   *encoder
	metrics   *serverMetrics
	timeout   time.Duration // of one reading
	heldBytes int           // of frames that a snapshot may hold
	limiter   *limiter      // of snapshots

	mu     sync.Mutex
	aheads int // readings that snapshots have under way besides their first; guarded by mu
}

// slotRange is a range of slots, ready to be sent.
type slotRange struct {
	last   int
	head   Head
	frames [][]byte
	count  uint64
}

// tryRange reads one range until it succeeds or ctx ends. A range that is too wide is
// cut.
func (s *slotReader) tryRange(ctx context.Context, first, last int, width *int, log *slog.Logger) (part slotRange, err error) {
	for {
		err = s.try(ctx, log, func() (err error) {
			begun := time.Now()
			part, err = s.readRange(ctx, first, last, width)
			return s.narrowed(width, begun, err)
		})
		switch {
		case !errors.Is(err, errTooWide):
			return part, err
		case *width == 1:
			return part, fmt.Errorf("slot %d: %w", first, err)
		}
		*width /= 2
	}
}

// trySums reads the sums of one range until it succeeds or ctx ends.
func (s *slotReader) trySums(ctx context.Context, first, last int, width *int, log *slog.Logger) (part sumsPart, err error) {
	err = s.try(ctx, log, func() (err error) {
		begun := time.Now()
		part, err = s.readSums(ctx, first, last, width)
		return s.narrowed(width, begun, err)
	})
	return part, err
}

// narrowed halves the width when the reading of a range has failed after a long time: a
// source that ends long readings would end it again.
func (s *slotReader) narrowed(width *int, begun time.Time, err error) error {
	if err != nil && *width > 1 && time.Since(begun) >= s.timeout && !errors.Is(err, errTooWide) {
		*width /= 2
	}
	return err
}

// try repeats a reading of slots while the source is away.
func (s *slotReader) try(ctx context.Context, log *slog.Logger, read func() error) error {
	for failures := 0; ; failures++ {
		err := read()
		if err == nil || errors.Is(err, errTooWide) || errors.Is(err, ErrNoSource) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.metrics.failures.Inc()
		log.Warn("cannot read slots for a follower", "error", err)
		if err := sleep(ctx, min(100*time.Millisecond<<min(failures, 5), 2*time.Second)); err != nil {
			return err
		}
	}
}

// rangeEnd returns the last slot of a range that begins at first and ends no later than
// last. Ranges are aligned to their width, wherever they begin.
func (s *slotReader) rangeEnd(ctx context.Context, first, last int, width *int) (int, error) {
	if *width == 0 {
		n, err := s.source.SnapshotWidth(ctx)
		if err != nil {
			return 0, fmt.Errorf("read the snapshot width: %w", err)
		}
		n = min(max(n, 1), waypost.Slots)
		*width = 1 << (bits.Len(uint(n)) - 1)
	}
	return min(first/(*width)*(*width)+*width-1, last), nil
}

// readRange reads the range that begins at first and holds it as frames.
func (s *slotReader) readRange(ctx context.Context, first, last int, width *int) (slotRange, error) {
	end, err := s.rangeEnd(ctx, first, last, width)
	if err != nil {
		return slotRange{}, err
	}
	part := slotRange{last: end}
	held, limit := 0, s.heldBytes/(1+maxAhead) // one is sent while others are read
	if *width == 1 {
		limit = maxSlot
	}
	payload, records := appendSlotsHeader(nil, uint16(first), uint16(part.last)), 0
	flush := func(flags byte) error {
		sealSlots(payload, &part.head, records)
		frame := s.encoder.frame(frameSlots, flags, payload)
		if held += len(frame); held > limit {
			return errTooWide
		}
		part.frames = append(part.frames, frame)
		payload, records = payload[:slotsHeaderSize], 0
		return nil
	}
	head, err := s.source.Snapshot(ctx, uint16(first), uint16(part.last), func(record []byte) error {
		if len(record) > MaxRecord {
			return fmt.Errorf("%w: %d bytes", ErrRecord, len(record))
		}
		if len(payload)+4+len(record) > frameTarget {
			if err := flush(0); err != nil {
				return err
			}
		}
		payload = append(binary.LittleEndian.AppendUint32(payload, uint32(len(record))), record...)
		records++
		part.count++
		return nil
	})
	if err != nil {
		return slotRange{}, err
	}
	part.head = head
	return part, flush(flagLastPart)
}

func (s *slotReader) readSums(ctx context.Context, first, last int, width *int) (sumsPart, error) {
	end, err := s.rangeEnd(ctx, first, last, width)
	if err != nil {
		return sumsPart{}, err
	}
	part := sumsPart{first: uint16(first), last: uint16(end)}
	part.sums, part.head, err = s.source.Sums(ctx, part.first, part.last)
	if err == nil && len(part.sums) != end-first+1 {
		err = errors.New("the source returned the wrong number of sums")
	}
	return part, err
}

// mayReadAhead reports whether a snapshot may begin a second reading. A caller that may
// calls readAheadEnds.
func (s *slotReader) mayReadAhead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limiter.running()+s.aheads >= cap(s.limiter.tokens) {
		return false
	}
	s.aheads++
	return true
}

func (s *slotReader) readAheadEnds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aheads--
}

// ahead reads the ranges of a snapshot in their order, and the next ones while one is
// sent. Each snapshot has one reading at a time, and a second while fewer snapshots are
// under way than may be. One goroutine uses it.
type ahead struct {
	reader *slotReader
	log    *slog.Logger
	runs   []run // of which no reading has begun
	width  int   // of the ranges; 0: not known yet

	readings []*reading      // that have begun, in their order
	parent   context.Context //nolint:containedctx // of the request
	ctx      context.Context //nolint:containedctx // of the readings
	cancel   context.CancelFunc
}

// reading is one range on its way.
type reading struct {
	run
	width int           // its own, which is smaller when it turned out too wide
	done  chan struct{} // closed when part and err are set
	part  slotRange
	err   error
}

func (s *slotReader) readAhead(ctx context.Context, runs []run, log *slog.Logger) *ahead {
	a := &ahead{reader: s, log: log, runs: append([]run(nil), runs...), parent: ctx}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// close ends the readings, and waits for them.
func (a *ahead) close() {
	a.cancel()
	for _, r := range a.readings {
		<-r.done
	}
}

// next returns the next range.
func (a *ahead) next(ctx context.Context) (slotRange, error) {
	if err := a.beginReads(ctx); err != nil {
		return slotRange{}, err
	}
	if len(a.readings) == 0 {
		return slotRange{}, errAllRead
	}
	r := a.readings[0]
	select {
	case <-r.done:
	case <-ctx.Done():
		return slotRange{}, ctx.Err()
	}
	if r.err != nil {
		return slotRange{}, r.err
	}
	a.readings = a.readings[1:]
	if r.part.last < r.last {
		a.narrow(r)
	}
	if a.width == 1 { // it may be large, and is not held twice
		return r.part, nil
	}
	return r.part, a.beginReads(ctx)
}

// beginReads begins as many readings as there may be.
func (a *ahead) beginReads(ctx context.Context) error {
	for len(a.runs) > 0 && len(a.readings) < maxAhead {
		if a.width == 1 && len(a.readings) > 0 { // also when the last one is not taken yet
			return nil
		}
		further := a.underWay() > 0
		if further && !a.reader.mayReadAhead() {
			return nil
		}
		r, err := a.plan(ctx)
		if err != nil {
			return err
		}
		a.readings = append(a.readings, r)
		go func() {
			defer close(r.done)
			r.part, r.err = a.reader.tryRange(a.ctx, r.first, r.last, &r.width, a.log)
			if further {
				a.reader.readAheadEnds()
			}
		}()
	}
	return nil
}

// underWay counts the readings that have not ended.
func (a *ahead) underWay() (n int) {
	for _, r := range a.readings {
		select {
		case <-r.done:
		default:
			n++
		}
	}
	return n
}

// plan takes the first range off the remaining ones.
func (a *ahead) plan(ctx context.Context) (*reading, error) {
	first, last := a.runs[0].first, a.runs[0].last
	err := a.reader.try(ctx, a.log, func() (err error) {
		last, err = a.reader.rangeEnd(ctx, first, a.runs[0].last, &a.width)
		return err
	})
	if err != nil {
		return nil, err
	}
	if a.runs[0].first = last + 1; a.runs[0].first > a.runs[0].last {
		a.runs = a.runs[1:]
	}
	return &reading{run: run{first, last}, width: a.width, done: make(chan struct{})}, nil
}

// narrow plans the rest of a range that was too wide, after the part that was read. It
// plans the ranges read ahead again, because they are likely to be too wide, too.
func (a *ahead) narrow(r *reading) {
	a.cancel()
	left := []run{{r.part.last + 1, r.last}}
	for _, other := range a.readings {
		<-other.done
		left = append(left, other.run)
	}
	a.runs, a.readings, a.width = append(left, a.runs...), nil, r.width
	a.ctx, a.cancel = context.WithCancel(a.parent)
}
