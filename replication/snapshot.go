package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"waypost"
)

const (
	// maxRange bounds what is held of one range of slots before it is sent, in
	// bytes of frames; a wider range is read again in halves.
	maxRange = 64 << 20
	// maxSlot bounds a single slot, which cannot be halved.
	maxSlot = 512 << 20
)

// errTooWide says that a range of slots holds more than maxRange.
var errTooWide = errors.New("the range of slots is too wide")

// Snapshot answers GET ?first=SLOT with all slots from there on, in order. Each
// range of slots is read as it stands at one position, held, and only then sent,
// so that a slow follower never keeps the source waiting.
func (s *Server) Snapshot(w http.ResponseWriter, r *http.Request) {
	first := 0
	if text := r.URL.Query().Get("first"); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n >= waypost.Slots {
			http.Error(w, fmt.Sprintf("first must be a slot from 0 to %d", waypost.Slots-1), http.StatusBadRequest)
			return
		}
		first = int(n)
	}
	head, err := s.admit()
	if err != nil {
		refuse(w, err)
		return
	}
	defer s.requests.Done()
	select {
	case s.snapshots <- struct{}{}:
		defer func() { <-s.snapshots }()
	default:
		refuse(w, errors.New("too many snapshots at once"))
		return
	}
	s.metrics.snapshots.Inc()
	c := s.open(w, r, head)
	c.log.Info("snapshot begun", "first", first)
	err = c.snapshot(r.Context(), first)
	c.close(r.Context(), err)
}

func (c *connection) snapshot(ctx context.Context, first int) error {
	if err := c.sendHello(); err != nil {
		return err
	}
	width, count := 0, uint64(0)
	for first < waypost.Slots {
		part, err := c.awaitSlots(ctx, first, &width)
		if err != nil {
			return err
		}
		if part.head.Position.Epoch != c.hello.Position.Epoch {
			return c.reset(ResetOtherHistory, "a new epoch began during the snapshot")
		}
		for _, frame := range part.frames {
			if err := c.send(frameSlots, frame); err != nil {
				return err
			}
		}
		first, count = part.last+1, count+part.count
		if c.server.view(waypost.Position{}).draining {
			return c.bye()
		}
	}
	if err := c.send(frameEnd, plainFrame(frameEnd, 0, appendCount(count))); err != nil {
		return err
	}
	c.log.Info("snapshot sent", "records", count)
	return errEnded
}

// slotRange is a range of slots, ready to be sent.
type slotRange struct {
	last   int
	head   Head
	frames [][]byte
	count  uint64
}

// awaitSlots reads the next range, trying again while the source is away, and
// sends heartbeats meanwhile, so that the follower knows that somebody is there.
func (c *connection) awaitSlots(ctx context.Context, first int, width *int) (slotRange, error) {
	ctx, cancel := context.WithCancel(ctx)
	type outcome struct {
		part slotRange
		err  error
	}
	done := make(chan outcome, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		part, err := c.server.tryRange(ctx, first, width, c)
		done <- outcome{part, err}
	}()
	defer func() { cancel(); <-finished }()

	beat := time.NewTicker(c.server.cfg.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case o := <-done:
			return o.part, o.err
		case <-beat.C:
			v := c.server.view(waypost.Position{})
			if v.draining {
				return slotRange{}, c.bye()
			}
			if err := c.send(frameHeartbeat, v.heartbeat); err != nil {
				return slotRange{}, err
			}
		}
	}
}

// tryRange reads one range until it succeeds or ctx ends. It does not touch the
// connection but for its log.
func (s *Server) tryRange(ctx context.Context, first int, width *int, c *connection) (slotRange, error) {
	for failures := 0; ; failures++ {
		part, err := s.readRange(ctx, first, width)
		switch {
		case err == nil:
			return part, nil
		case ctx.Err() != nil:
			return slotRange{}, ctx.Err()
		case errors.Is(err, errTooWide):
			if *width == 1 {
				return slotRange{}, fmt.Errorf("slot %d: %w", first, err)
			}
			*width /= 2
			failures = -1
			continue
		}
		s.metrics.failures.Inc()
		c.log.Warn("slots cannot be read for a snapshot", "first", first, "error", err)
		if err := sleep(ctx, min(100*time.Millisecond<<min(failures, 5), 2*time.Second)); err != nil {
			return slotRange{}, err
		}
	}
}

func (s *Server) readRange(ctx context.Context, first int, width *int) (slotRange, error) {
	if *width == 0 {
		n, err := s.cfg.Source.SnapshotWidth(ctx)
		if err != nil {
			return slotRange{}, fmt.Errorf("read the snapshot width: %w", err)
		}
		n = min(max(n, 1), waypost.Slots)
		*width = 1 << (bits.Len(uint(n)) - 1)
	}
	// Ranges are aligned to their width, wherever the snapshot began.
	part := slotRange{last: first/(*width)*(*width) + *width - 1}
	held, limit := 0, maxRange
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
