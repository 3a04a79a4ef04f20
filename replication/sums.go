package replication

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// run is some slots in a row.
type run struct{ first, last int }

// maxRuns bounds how many runs of slots may be asked for at once, so that the request
// stays well below what proxies take.
const maxRuns = 256

// wantedSlots reads which slots a request is about: all of them, all from one on, or those
// of a list in order.
func wantedSlots(query url.Values) ([]run, error) {
	list := query.Get("slots")
	if list == "" {
		all := run{0, waypost.Slots - 1}
		if text := query.Get("first"); text != "" {
			first, ok := parseSlot(text)
			if !ok {
				return nil, fmt.Errorf("first must be a slot from 0 to %d", waypost.Slots-1)
			}
			all.first = first
		}
		return []run{all}, nil
	}
	parts := strings.SplitN(list, ",", maxRuns+1)
	runs := make([]run, 0, len(parts))
	next := 0
	for _, part := range parts {
		from, to, more := strings.Cut(part, "-")
		first, ok := parseSlot(from)
		last := first
		if ok && more {
			last, ok = parseSlot(to)
		}
		if !ok || len(parts) > maxRuns || first < next || last < first {
			return nil, fmt.Errorf("slots must be at most %d slots or ranges of slots from 0 to %d, such as 3,17-19, in order", maxRuns, waypost.Slots-1)
		}
		runs, next = append(runs, run{first, last}), last+1
	}
	return runs, nil
}

func parseSlot(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err == nil && n < waypost.Slots
}

// slotList writes what wantedSlots reads, of slots in order, and gives those for which
// there is no room.
func slotList(slots []uint16) (list string, rest []uint16) {
	var b strings.Builder
	for runs := 0; len(slots) > 0 && runs < maxRuns; runs++ {
		n := 1
		for n < len(slots) && slots[n] == slots[n-1]+1 {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(slots[0])))
		if n > 1 {
			b.WriteString("-" + strconv.Itoa(int(slots[n-1])))
		}
		slots = slots[n:]
	}
	return b.String(), slots
}

// Sums answers GET ?first=SLOT with the sums of all slots from there on, in order. Each
// range of slots is read as it stands at one position, which comes with it.
func (s *Server) Sums(w http.ResponseWriter, r *http.Request) {
	runs, err := wantedSlots(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.serveSlots(w, r, s.sums, func(c *connection) error {
		s.metrics.sums.Inc()
		return c.sums(r.Context(), runs)
	})
}

func (c *connection) sums(ctx context.Context, runs []run) error {
	if err := c.sendHello(); err != nil {
		return err
	}
	width, count := 0, uint64(0)
	for _, run := range runs {
		for first := run.first; first <= run.last; {
			part, err := await(ctx, c, func(ctx context.Context) (part sumsPart, err error) {
				err = c.tryRead(ctx, func() (err error) {
					begun := time.Now()
					part, err = c.server.readSums(ctx, first, run.last, &width)
					return c.server.narrowed(&width, begun, err)
				})
				return part, err
			})
			if err != nil {
				return err
			}
			if part.head.Position.Epoch != c.hello.Position.Epoch {
				return c.reset(ResetOtherHistory, "a new epoch began during the comparison")
			}
			if err := c.send(frameSums, c.server.encoder.frame(frameSums, 0, appendSums(nil, &part))); err != nil {
				return err
			}
			c.server.cfg.Points.Hit("send sums: range sent")
			first, count = int(part.last)+1, count+uint64(len(part.sums))
		}
	}
	return c.end("sums sent", count)
}

func (s *Server) readSums(ctx context.Context, first, last int, width *int) (sumsPart, error) {
	end, err := s.rangeEnd(ctx, first, last, width)
	if err != nil {
		return sumsPart{}, err
	}
	part := sumsPart{first: uint16(first), last: uint16(end)}
	part.sums, part.head, err = s.cfg.Source.Sums(ctx, part.first, part.last)
	if err == nil && len(part.sums) != end-first+1 {
		err = errors.New("the source gave another number of sums")
	}
	return part, err
}
