package replication

import (
	"context"
	"errors"
)

// maxAhead is how many ranges of a snapshot are read, or held, while one is sent.
const maxAhead = 2

// errAllRead says that there is no further range.
var errAllRead = errors.New("all ranges are read")

// ahead reads the ranges of a snapshot in their order, and the next ones while one is sent. Each
// snapshot has one reading at a time, and a second while there are fewer at once than
// snapshots may be. One goroutine uses it.
type ahead struct {
	c     *connection
	runs  []run // of which no reading has begun
	width int   // of the ranges; 0: not known yet

	readings []*reading      // that have begun, in their order
	ctx      context.Context //nolint:containedctx // ends the readings
	cancel   context.CancelFunc
}

// reading is one range on its way.
type reading struct {
	run
	width int           // its own, which is smaller when it turned out too wide
	done  chan struct{} // closed when what follows is there
	part  slotRange
	err   error
}

func (c *connection) readAhead(ctx context.Context, runs []run) *ahead {
	a := &ahead{c: c, runs: append([]run(nil), runs...)}
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

// next gives the next range.
func (a *ahead) next(ctx context.Context) (slotRange, error) {
	if err := a.begin(ctx); err != nil {
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
	return r.part, a.begin(ctx)
}

// begin begins as many readings as there may be.
func (a *ahead) begin(ctx context.Context) error {
	for len(a.runs) > 0 && len(a.readings) < maxAhead {
		if a.width == 1 && len(a.readings) > 0 { // also when what came is not taken yet
			return nil
		}
		further := a.underWay() > 0
		if further && !a.c.server.mayReadAhead() {
			return nil
		}
		r, err := a.plan(ctx)
		if err != nil {
			return err
		}
		a.readings = append(a.readings, r)
		go func() {
			defer close(r.done)
			r.part, r.err = a.c.server.tryRange(a.ctx, r.first, r.last, &r.width, a.c)
			if further {
				a.c.server.readAheadEnds()
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

// plan takes the first range off those that are left.
func (a *ahead) plan(ctx context.Context) (*reading, error) {
	first, last := a.runs[0].first, a.runs[0].last
	err := a.c.tryRead(ctx, func() (err error) {
		last, err = a.c.server.rangeEnd(ctx, first, a.runs[0].last, &a.width)
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

// narrow goes on behind what has come of a range that was too wide. What was read behind it
// is likely to be too wide, too.
func (a *ahead) narrow(r *reading) {
	a.cancel()
	left := []run{{r.part.last + 1, r.last}}
	for _, other := range a.readings {
		<-other.done
		left = append(left, other.run)
	}
	a.runs, a.readings, a.width = append(left, a.runs...), nil, r.width
	a.ctx, a.cancel = context.WithCancel(a.c.ctx)
}

// mayReadAhead reports whether a snapshot may begin a second reading. Whoever may calls
// readAheadEnds.
func (s *Server) mayReadAhead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snapshots.running()+s.aheads >= cap(s.snapshots.tokens) {
		return false
	}
	s.aheads++
	return true
}

func (s *Server) readAheadEnds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aheads--
}
