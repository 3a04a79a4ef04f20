package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"waypost"
)

// Snapshot answers GET ?first=SLOT with all slots from SLOT on, in order, and GET
// ?slots=LIST, such as 3,17-19, with the listed slots. Each range of slots is read as it
// stands at one position, held, and only then sent, so that a slow follower never keeps
// the source waiting. The next ranges are read while one is sent.
func (s *Server) Snapshot(w http.ResponseWriter, r *http.Request) {
	runs, err := wantedSlots(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if whole := r.URL.Query().Get("slots") == ""; whole {
		if err := s.sound(r, PathSnapshot); err != nil {
			refuse(w, err)
			return
		}
	}
	if counter, ok := s.cfg.Source.(Counter); ok {
		if n, err := counter.Count(r.Context()); err == nil {
			w.Header().Set(HeaderRecords, strconv.FormatUint(n, 10))
		}
	}
	s.serveSlots(w, r, s.snapshots, func(c *followerConn) error {
		s.metrics.snapshots.Inc()
		c.log.Info("sending a snapshot", "first", runs[0].first, "ranges", len(runs))
		return c.snapshot(r.Context(), runs)
	})
}

// Sums answers GET ?first=SLOT, or ?slots=LIST, with the sums of those slots, in order.
// Each range of slots is read as it stands at one position, which comes with it. They are
// for a repair, which an unsound source refuses.
func (s *Server) Sums(w http.ResponseWriter, r *http.Request) {
	runs, err := wantedSlots(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.sound(r, PathSums); err != nil {
		refuse(w, err)
		return
	}
	s.serveSlots(w, r, s.sums, func(c *followerConn) error {
		s.metrics.sums.Inc()
		return c.sums(r.Context(), runs)
	})
}

func (s *Server) sound(r *http.Request, path string) error {
	if s.cfg.Sound == nil {
		return nil
	}
	return s.cfg.Sound(r.Context(), path)
}

// serveSlots lets a request in that reads slots, unless too many are under way.
func (s *Server) serveSlots(w http.ResponseWriter, r *http.Request, l *limiter, serve func(*followerConn) error) {
	head, err := s.board.admit()
	if err != nil {
		refuse(w, err)
		return
	}
	defer s.board.leave()
	t, ok := l.enter()
	if !ok {
		w.Header().Set(HeaderBusy, "1")
		refuse(w, errTooMany)
		return
	}
	leave := sync.OnceFunc(t.leave)
	defer leave()
	c := s.open(w, r, s.newest(r.Context(), head))
	c.turn = t
	err = serve(c)
	leave() // before a follower is told why it is sent away, which may take long
	c.close(r.Context(), err)
}

var errTooMany = errors.New("as many snapshots are under way as may be")

// newest reads the head again: the head of the heartbeats may be older than the newest
// that the follower has seen, which takes no slots from before that. A slow source must
// not keep the follower waiting for a hello.
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

func (c *followerConn) snapshot(ctx context.Context, runs []run) error {
	if err := c.sendHello(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	readings := c.server.slots.readRuns(ctx, runs, c.log)
	defer func() {
		cancel()
		for range readings { // until the reader has ended
		}
	}()
	for count := uint64(0); ; {
		r, err := await(ctx, c, func(ctx context.Context) (r reading, err error) {
			select {
			case r = <-readings:
			case <-ctx.Done():
			}
			return r, ctx.Err()
		})
		part := r.part
		switch err := cmp.Or(err, r.err); {
		case err != nil:
			return err
		case part.frames == nil:
			return c.checkEnd("sent a snapshot", count)
		case part.head.Position.Epoch != c.hello.Position.Epoch:
			return c.reset(ResetOtherHistory, "a new epoch began during the snapshot")
		}
		for _, frame := range part.frames {
			if err := c.send(frameSlots, frame); err != nil {
				return err
			}
		}
		c.server.cfg.Points.Hit("send snapshot: range sent")
		count += part.count
		if c.server.board.view(waypost.Position{}).draining {
			return c.bye("")
		}
		if c.turn.over(c.server.cfg.Turn) {
			return c.bye("others wait for a snapshot: ask again")
		}
	}
}

func (c *followerConn) sums(ctx context.Context, runs []run) error {
	if err := c.sendHello(); err != nil {
		return err
	}
	width, count := 0, uint64(0)
	for _, run := range runs {
		for first := run.first; first <= run.last; {
			part, err := await(ctx, c, func(ctx context.Context) (sumsPart, error) {
				return c.server.slots.trySums(ctx, first, run.last, &width, c.log)
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
	return c.checkEnd("sent the sums", count)
}

// checkEnd says that everything was sent.
func (c *followerConn) checkEnd(what string, count uint64) error {
	if err := c.send(frameEnd, plainFrame(frameEnd, 0, appendCount(count))); err != nil {
		return err
	}
	c.log.Info(what, "count", count)
	return errEnded
}

// await returns the result of read, and sends heartbeats while read runs, so that the
// follower knows that the server lives.
func await[T any](ctx context.Context, c *followerConn, read func(context.Context) (T, error)) (none T, err error) {
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
			v := c.server.board.view(waypost.Position{})
			if v.draining {
				return none, c.bye("")
			}
			if err := c.send(frameHeartbeat, v.heartbeat); err != nil {
				return none, err
			}
		}
	}
}

// run is a range of slots, both ends included.
type run struct{ first, last int }

// maxRuns bounds how many runs of slots may be asked for at once, so that the request
// stays well below the limits of proxies.
const maxRuns = 256

// wantedSlots parses the slots of a request: all of them, all from one on, or an ordered
// list.
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
			return nil, fmt.Errorf("slots must be at most %d slots or ranges of slots from 0 to %d, such as 3,17-19, in order",
				maxRuns, waypost.Slots-1)
		}
		runs, next = append(runs, run{first, last}), last+1
	}
	return runs, nil
}

func parseSlot(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err == nil && n < waypost.Slots
}

// slotList writes a list that wantedSlots reads, of slots in order, and returns the
// slots for which there is no room.
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
