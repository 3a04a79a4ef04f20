package replication

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"waypost"
)

// Snapshot answers GET ?first=SLOT with all slots from there on, in order, and GET
// ?slots=LIST, such as 3,17-19, with those. Each
// range of slots is read as it stands at one position, held, and only then sent,
// so that a slow follower never keeps the source waiting. The next ones are read meanwhile.
func (s *Server) Snapshot(w http.ResponseWriter, r *http.Request) {
	runs, err := wantedSlots(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if counter, ok := s.cfg.Source.(Counter); ok {
		if n, err := counter.Count(r.Context()); err == nil {
			w.Header().Set(HeaderRecords, strconv.FormatUint(n, 10))
		}
	}
	s.serveSlots(w, r, s.snapshots, func(c *connection) error {
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

// serveSlots lets a request in that reads slots, when fewer are under way than may be.
func (s *Server) serveSlots(w http.ResponseWriter, r *http.Request, l *limiter, serve func(*connection) error) {
	if !s.agree(w, r) {
		return
	}
	head, err := s.admit()
	if err != nil {
		refuse(w, err)
		return
	}
	defer s.requests.Done()
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

func (c *connection) snapshot(ctx context.Context, runs []run) error {
	if err := c.sendHello(); err != nil {
		return err
	}
	a := c.readAhead(ctx, runs)
	defer a.close()
	for count := uint64(0); ; {
		part, err := await(ctx, c, a.next)
		switch {
		case errors.Is(err, errAllRead):
			return c.end("snapshot sent", count)
		case err != nil:
			return err
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
		if c.server.view(waypost.Position{}).draining {
			return c.bye()
		}
		if c.turn.over(c.server.cfg.Turn) {
			return c.byeFor("others wait for a snapshot: ask again")
		}
	}
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
