package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"waypost"
)

// maxSlot bounds a single slot, which cannot be halved, in bytes of frames.
const maxSlot = 512 << 20

// errTooWide says that a range of slots holds more than it may, and is to be read in halves.
var errTooWide = errors.New("the range of slots is too wide")

// slotRange is a range of slots, ready to be sent.
type slotRange struct {
	last   int
	head   Head
	frames [][]byte
	count  uint64
}

// tryRange reads one range until it succeeds or ctx ends. It does not touch the
// connection but for its log.
func (s *Server) tryRange(ctx context.Context, first, last int, width *int, c *connection) (part slotRange, err error) {
	for {
		err = c.tryRead(ctx, func() (err error) {
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

// narrowed makes ranges half as wide when the reading of one has failed after a long time: a source that ends
// those that take too long would end it again.
func (s *Server) narrowed(width *int, begun time.Time, err error) error {
	if err != nil && *width > 1 && time.Since(begun) >= s.cfg.ReadTimeout && !errors.Is(err, errTooWide) {
		*width /= 2
	}
	return err
}

// tryRead repeats a reading of slots while the source is away.
func (c *connection) tryRead(ctx context.Context, read func() error) error {
	for failures := 0; ; failures++ {
		err := read()
		if err == nil || errors.Is(err, errTooWide) || errors.Is(err, ErrNoSource) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.server.metrics.failures.Inc()
		c.log.Warn("slots cannot be read for a follower", "error", err)
		if err := sleep(ctx, min(100*time.Millisecond<<min(failures, 5), 2*time.Second)); err != nil {
			return err
		}
	}
}

// rangeEnd is the last slot of a range that begins at first and ends no later than
// last. Ranges are aligned to their width, wherever they begin.
func (s *Server) rangeEnd(ctx context.Context, first, last int, width *int) (int, error) {
	if *width == 0 {
		n, err := s.cfg.Source.SnapshotWidth(ctx)
		if err != nil {
			return 0, fmt.Errorf("read the snapshot width: %w", err)
		}
		n = min(max(n, 1), waypost.Slots)
		*width = 1 << (bits.Len(uint(n)) - 1)
	}
	return min(first/(*width)*(*width)+*width-1, last), nil
}

// readRange reads the range that begins at first and holds it as frames.
func (s *Server) readRange(ctx context.Context, first, last int, width *int) (slotRange, error) {
	end, err := s.rangeEnd(ctx, first, last, width)
	if err != nil {
		return slotRange{}, err
	}
	part := slotRange{last: end}
	held, limit := 0, s.cfg.HeldBytes/(1+maxAhead) // one is sent while others are read
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
	head, err := s.cfg.Source.Snapshot(ctx, uint16(first), uint16(part.last), func(record []byte) error {
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
