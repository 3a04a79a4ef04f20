package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"waypost/api"
	"waypost/client"
	"waypost/test/devtest"
)

const (
	visitorsOfEdge = 2
	writers        = 3
	visitPace      = 45 * time.Millisecond
	writePace      = 150 * time.Millisecond
	blockPace      = 2 * time.Second
	answerTime     = 15 * time.Second // of a visit
	mostOwn        = 8                // links that a writer changes
	mostVisited    = 60               // links that come and go and are visited
	stableLinks    = 8
	budgets        = 3
)

// traffic sends the requests of visitors and of those who write.
type traffic struct {
	s    *system
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	stable  []string
	limited []string
	moving  []string // the newest links that come and go
}

// source returns random numbers that depend on the seed and on the user of them.
func source(seed uint64, user string, n int) *rand.Rand {
	mix := uint64(n) + 1
	for _, b := range []byte(user) {
		mix = mix*1099511628211 ^ uint64(b)
	}
	return rand.New(rand.NewPCG(seed, mix))
}

// outcomeOf says what is known of the effect of a request that ended with err.
func outcomeOf(err error) (outcome Outcome, detail string) {
	switch {
	case err == nil:
		return Done, ""
	case client.Processed(err):
		return Unknown, err.Error()
	}
	return Refused, err.Error()
}

func changeTo(target string) client.LinkChange {
	return client.LinkChange{OriginalURL: api.Set(target)}
}

// startTraffic makes the links that every visitor knows, and lets the requests begin.
func startTraffic(s *system, seed uint64, most int64) *traffic {
	t := &traffic{s: s}
	t.ctx, t.stop = context.WithCancel(context.Background())
	for i := range stableLinks {
		code := fmt.Sprintf("stable-%d", i)
		s.create(client.NewLink{OriginalURL: target(code, 0), CustomCode: code})
		t.stable = append(t.stable, code)
		s.recorder.Change(func(h *History) { h.Stable[code] = target(code, 0) })
	}
	for i := range budgets {
		code := fmt.Sprintf("limited-%d", i)
		s.create(client.NewLink{OriginalURL: target(code, 0), CustomCode: code, MaxClicks: most, MaxClicksMode: "exact"})
		t.limited = append(t.limited, code)
		s.recorder.Change(func(h *History) { h.Budgets[code] = Budget{Target: target(code, 0), Most: int(most)} })
	}
	s.whole()
	for _, e := range s.edges {
		for n := range visitorsOfEdge {
			t.work.Go(func() { t.visit(e, source(seed, e.node, n)) })
		}
	}
	for n := range writers {
		w := &writer{t: t, n: n, rand: source(seed, "writer", n), at: n % len(s.controls)}
		t.work.Go(w.run)
	}
	b := &writer{t: t, n: writers, rand: source(seed, "blocker", 0)}
	t.work.Go(b.block)
	return t
}

// end lets the requests that are under way end.
func (t *traffic) end() {
	t.stop()
	t.work.Wait()
}

// pace waits between two requests, and returns false at the end.
func (t *traffic) pace(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// pick returns a code for a visitor.
func (t *traffic) pick(r *rand.Rand) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.moving
	switch n := r.IntN(100); {
	case n < 35 || len(of) == 0:
		of = t.stable
	case n < 38:
		of = t.limited
	case n < 50:
		return t.s.controls[r.IntN(len(t.s.controls))].probe
	}
	return of[r.IntN(len(of))]
}

// show lets visitors know a code.
func (t *traffic) show(code string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.moving = append(t.moving, code); len(t.moving) > mostVisited {
		t.moving = slices.Delete(t.moving, 0, 1)
	}
}

// visit follows links on an edge. Each visit has a connection of its own, so that no
// visit fails because of what has ended before.
func (t *traffic) visit(e *edge, r *rand.Rand) {
	f := devtest.Follower{Agent: agent, Patience: answerTime}
	for t.pace(visitPace/2 + time.Duration(r.Int64N(int64(visitPace)))) {
		op := Operation{Kind: Visit, Node: e.node, Code: t.pick(r), Call: t.s.recorder.Now(), Outcome: Done}
		status, _, err := f.Follow(e.visitors.Addr(), op.Code)
		f.Close()
		op.Return = t.s.recorder.Now()
		if err == nil {
			if op.Saw = saw(status, f.Location); op.Saw == "" {
				err = errors.New(http.StatusText(status))
			}
		}
		if err != nil {
			op.Outcome, op.Detail = Unknown, err.Error()
		}
		t.s.recorder.Add(op)
	}
}

// writer makes and changes links of its own, one request after the other.
type writer struct {
	t    *traffic
	n    int
	rand *rand.Rand
	at   int // the control plane that it asks
	made int
	own  []*owned
}

// owned is a link of a writer.
type owned struct {
	code    string
	edits   int
	deleted bool // as far as the writer knows
}

func (w *writer) run() {
	for w.t.pace(writePace/2 + time.Duration(w.rand.Int64N(int64(writePace)))) {
		n := w.rand.IntN(100)
		if len(w.own) < 3 || n < 10 {
			w.create()
			continue
		}
		l := w.own[w.rand.IntN(len(w.own))]
		switch {
		case n < 20:
			w.claim(l)
		case l.deleted:
			w.restore(l)
		case n < 35:
			w.remove(l)
		default:
			w.edit(l)
		}
	}
}

// send sends a request to one control plane, and the next one to the other if that was of
// no use.
func (w *writer) send(op Operation, do func(context.Context, *client.Client, *Operation) error) Operation {
	s := w.t.s
	c := s.controls[w.at]
	op.Node, op.Call = c.node, s.recorder.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.ctx), 6*time.Second)
	defer cancel()
	err := do(ctx, c.api, &op)
	op.Return = s.recorder.Now()
	op.Outcome, op.Detail = outcomeOf(err)
	if _, passing := client.Passing(err); err != nil && passing {
		w.at = (w.at + 1) % len(s.controls)
	}
	return op
}

// wait has some changes wait for every edge.
func (w *writer) wait() client.Write {
	if w.rand.IntN(3) == 0 {
		return client.Write{Wait: "all", Timeout: 2 * time.Second}
	}
	return client.Write{}
}

// make makes a link, with one Idempotency-Key until it is known whether there is a link.
func (w *writer) make() (code string) {
	w.made++
	name := fmt.Sprintf("w%d-%d", w.n, w.made)
	link := client.NewLink{OriginalURL: target(name, 0)}
	if w.rand.IntN(2) == 0 {
		link.CustomCode = name
	}
	write := w.wait()
	write.Key = name
	whole := Operation{
		Kind: Create, Code: link.CustomCode, Value: link.OriginalURL, Call: w.t.s.recorder.Now(), Outcome: Unknown,
	}
	for tries := 0; ; tries++ {
		op := w.send(whole, func(ctx context.Context, c *client.Client, op *Operation) error {
			made, r, err := c.Links.Make(ctx, link, write)
			if err == nil {
				op.Code, op.Applied = made.ShortCode, r.Applied
			}
			return err
		})
		if op.Outcome != Unknown {
			if tries > 0 && op.Outcome == Done {
				op.Applied = "" // of the first time
			}
			op.Call = whole.Call
			if op.Outcome == Refused && tries > 0 {
				op.Outcome = Unknown
			}
			w.t.s.recorder.Add(op)
			if op.Outcome == Done {
				code = op.Code
			}
			return code
		}
		failed := op
		failed.Code = "" // the request goes on
		w.t.s.recorder.Add(failed)
		if !w.t.pace(200 * time.Millisecond) {
			whole.Return = w.t.s.recorder.Now()
			w.t.s.recorder.Add(whole)
			return ""
		}
	}
}

func (w *writer) create() {
	code := w.make()
	if code == "" {
		return
	}
	if w.own = append(w.own, &owned{code: code}); len(w.own) > mostOwn {
		w.own = slices.Delete(w.own, 0, 1)
	}
	w.t.show(code)
}

func (w *writer) edit(l *owned) {
	l.edits++
	write := w.wait()
	op := Operation{Kind: Edit, Code: l.code, Value: fmt.Sprintf("%s/by-%d", target(l.code, l.edits), w.n)}
	w.t.s.recorder.Add(w.send(op, func(ctx context.Context, c *client.Client, op *Operation) error {
		_, r, err := c.Links.Change(ctx, l.code, changeTo(op.Value), write)
		op.Applied = r.Applied
		return err
	}))
}

func (w *writer) remove(l *owned) {
	write := w.wait()
	op := w.send(Operation{Kind: Delete, Code: l.code}, func(ctx context.Context, c *client.Client, op *Operation) error {
		r, err := c.Links.Remove(ctx, l.code, write)
		op.Applied = r.Applied
		return err
	})
	w.t.s.recorder.Add(op)
	l.deleted = op.Outcome != Unknown || w.rand.IntN(2) == 0
}

func (w *writer) restore(l *owned) {
	write := w.wait()
	op := w.send(Operation{Kind: Restore, Code: l.code}, func(ctx context.Context, c *client.Client, op *Operation) error {
		link, r, err := c.Links.Restore(ctx, l.code, write)
		op.Saw, op.Applied = link.OriginalURL, r.Applied
		return err
	})
	w.t.s.recorder.Add(op)
	l.deleted = op.Outcome == Unknown && w.rand.IntN(2) == 0
}

// claim asks for a code that another link has or had.
func (w *writer) claim(l *owned) {
	value := fmt.Sprintf("https://example.com/claim/%d/%d", w.n, w.rand.Uint64())
	op := Operation{Kind: Claim, Code: l.code, Value: value}
	w.t.s.recorder.Add(w.send(op, func(ctx context.Context, c *client.Client, _ *Operation) error {
		_, err := c.Links.Create(ctx, client.NewLink{OriginalURL: value, CustomCode: l.code})
		return err
	}))
}

// block makes links and blocks them.
func (w *writer) block() {
	for w.t.pace(blockPace) {
		w.blockOne()
	}
}

// blockOne makes a link and blocks it, as often as it takes.
func (w *writer) blockOne() {
	code := w.make()
	if code == "" {
		return
	}
	w.t.show(code)
	for w.t.pace(300 * time.Millisecond) {
		op := w.send(Operation{Kind: Block, Code: code}, func(ctx context.Context, c *client.Client, _ *Operation) error {
			n := api.NewBlock{Policy: "legal", Reason: "a test"}
			_, err := client.Send[api.Block](ctx, c, http.MethodPut, client.Path(api.PathBlocks, code), n)
			return err
		})
		w.t.s.recorder.Add(op)
		if op.Outcome == Done {
			return
		}
	}
}
