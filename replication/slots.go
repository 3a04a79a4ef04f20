package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"time"

	"waypost"
)

// maxSlot bounds the records of a slot, in bytes, at the source and at a follower, which
// holds them in memory. A range of several slots is halved long before.
const maxSlot = 256 << 20

// errTooWide says that a range of slots is too large, and has to be read in halves.
var errTooWide = errors.New("the range of slots is too wide")

// slotReader reads ranges of slots from the source, for snapshots and sums.
type slotReader struct {
	source    Source
	encoder   *encoder
	metrics   *serverMetrics
	timeout   time.Duration // of one reading
	heldBytes int           // of records that a snapshot may hold
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
	held, limit := 0, s.heldBytes/2 // one is sent while the next is read
	if *width == 1 {
		limit = maxSlot
	}
	payload, records := appendSlotsHeader(nil, uint16(first), uint16(part.last)), 0
	flush := func(flags byte) error {
		sealSlots(payload, &part.head, records)
		if held += len(payload); held > limit {
			return errTooWide
		}
		part.frames = append(part.frames, s.encoder.frame(frameSlots, flags, payload))
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

// reading is the result of reading a range.
type reading struct {
	part slotRange
	err  error
}

// readRuns reads runs of slots in their order, and passes each range on. While the
// receiver sends one, the next is read. The channel is closed after the last range, after
// an error, and once ctx has ended.
func (s *slotReader) readRuns(ctx context.Context, runs []run, log *slog.Logger) <-chan reading {
	readings := make(chan reading)
	go func() {
		defer close(readings)
		width := 0
		for _, run := range runs {
			for first := run.first; first <= run.last; {
				part, err := s.tryRange(ctx, first, run.last, &width, log)
				select {
				case readings <- reading{part, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
				first = part.last + 1
			}
		}
	}()
	return readings
}
