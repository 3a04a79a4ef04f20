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

// Snapshot answers GET ?first=SLOT with all slots from there on, in order, and GET
// ?slots=LIST, such as 3,17-19, with those. Each
// range of slots is read as it stands at one position, held, and only then sent,
// so that a slow follower never keeps the source waiting.
func (s *Server) Snapshot(w http.ResponseWriter, r *http.Request) {
	runs, err := wantedSlots(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if counter, ok := s.cfg.Source.(Counter); ok {
		if n, err := counter.Records(r.Context()); err == nil {
			w.Header().Set(HeaderRecords, strconv.FormatUint(n, 10))
		}
	}
	s.serveSlots(w, r, s.snapshots, "snapshots", func(c *connection) error {
		s.metrics.snapshots.Inc()
		c.log.Info("snapshot begun", "first", runs[0].first, "ranges", len(runs))
		return c.snapshot(r.Context(), runs)
	})
}

// newest reads the head anew: that of the heartbeats may be older than what the follower has seen, which
// takes no slots from before that. A source that takes its time must not keep the follower waiting for a hello.
func (s *Server) newest(ctx context.Context, known Head) Head {
	ctx, cancel := context.WithTimeout(ctx, min(2*s.cfg.Heartbeat, s.cfg.ReadTimeout))
	defer cancel()
	head, err := s.cfg.Source.Head(ctx)
	if err != nil || head.Position.Epoch != known.Position.Epoch {
		return known
	}
	if s.cfg.Signer != nil {
		head.Signature = s.cfg.Signer.signHead(&head)
	}
	return head
}

// serveSlots lets a request in that reads slots, if there is a token for it.
func (s *Server) serveSlots(w http.ResponseWriter, r *http.Request, tokens chan struct{}, what string, serve func(*connection) error) {
	if !s.agree(w, r) {
		return
	}
	head, err := s.admit()
	if err != nil {
		refuse(w, err)
		return
	}
	defer s.requests.Done()
	select {
	case tokens <- struct{}{}:
		defer func() { <-tokens }()
	default:
		refuse(w, errors.New("too many "+what+" at once"))
		return
	}
	c := s.open(w, r, s.newest(r.Context(), head))
	c.close(r.Context(), serve(c))
}

func (c *connection) snapshot(ctx context.Context, runs []run) error {
	if err := c.sendHello(); err != nil {
		return err
	}
	width, count := 0, uint64(0)
	for _, run := range runs {
		for first := run.first; first <= run.last; {
			part, err := await(ctx, c, func(ctx context.Context) (slotRange, error) {
				return c.server.tryRange(ctx, first, run.last, &width, c)
			})
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
	}
	return c.end("snapshot sent", count)
}

// end says that all was sent.
func (c *connection) end(what string, count uint64) error {
	if err := c.send(frameEnd, plainFrame(frameEnd, 0, appendCount(count))); err != nil {
		return err
	}
	c.log.Info(what, "count", count)
	return errEnded
}

// await waits for what read brings, and sends heartbeats meanwhile, so that the
// follower knows that somebody is there.
func await[T any](ctx context.Context, c *connection, read func(context.Context) (T, error)) (none T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		value, err := read(ctx)
		done <- outcome{value, err}
	}()
	defer func() { cancel(); <-finished }()

	beat := time.NewTicker(c.server.cfg.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case o := <-done:
			return o.value, o.err
		case <-beat.C:
			v := c.server.view(waypost.Position{})
			if v.draining {
				return none, c.bye()
			}
			if err := c.send(frameHeartbeat, v.heartbeat); err != nil {
				return none, err
			}
		}
	}
}

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
		err = c.tryRead(ctx, func() (err error) { part, err = s.readRange(ctx, first, last, width); return err })
		switch {
		case !errors.Is(err, errTooWide):
			return part, err
		case *width == 1:
			return part, fmt.Errorf("slot %d: %w", first, err)
		}
		*width /= 2
	}
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

func (s *Server) readRange(ctx context.Context, first, last int, width *int) (slotRange, error) {
	end, err := s.rangeEnd(ctx, first, last, width)
	if err != nil {
		return slotRange{}, err
	}
	part := slotRange{last: end}
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
