package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waypost"
)

// Digest holds the digest of the changelog's head, and the digest that the replicated
// rows add up to. The two differ when rows were changed past the triggers, or are
// damaged.
type Digest struct {
	Position   waypost.Position
	Head, Rows uint64
	Records    int64
	At         time.Time // by the store's clock
	Took       time.Duration
}

// Differs reports whether the rows do not add up to the digest.
func (d *Digest) Differs() bool { return d.Head != d.Rows }

// DigestText returns a digest as people see it.
func DigestText(digest uint64) string { return fmt.Sprintf("%016x", digest) }

// ErrDigest says that edges cannot be repaired, because the repaired replica would not
// have the digest of the changelog.
var ErrDigest = waypost.Errorf(waypost.EConflict, "PostgreSQL's own rows do not add up to the digest of the changelog, "+
	"so no edge can be repaired: run `waypost verify --source`")

// DigestStore adds up replicated rows.
type DigestStore interface {
	// AddUp reads all rows as of one moment.
	AddUp(ctx context.Context) (Digest, error)

	// Recompute opens an epoch of the changelog with the digest of the rows, unless the
	// digest is right already. Writers wait until it returns. The act is then in the
	// audit log.
	Recompute(ctx context.Context, by Actor) error
}

const (
	// digestFresh is the least time for which an answer counts. An answer that took
	// longer to compute counts for as long as it took.
	digestFresh = 5 * time.Second
	// digestAgain is the time between looks at rows that differ.
	digestAgain = time.Minute
	// digestWait bounds the wait of a request for an answer.
	digestWait = 2 * time.Second
	// digestTime bounds one round.
	digestTime = 15 * time.Minute
)

// DigestCheck knows whether the rows of the store add up to the changelog's digest. It
// reads them when a follower or an operator wants to know, once at a time. Its methods
// may be called by many goroutines at once.
type DigestCheck struct {
	store   DigestStore
	log     *slog.Logger
	differs prometheus.Gauge
	asked   chan struct{} // has a token while next waits for Run

	mu    sync.Mutex
	next  *digestRound // the round that was asked for, and has not ended
	last  Digest       // zero: none was read
	lasts time.Time    // until when the last answer counts
	again bool         // a caller wanted an answer, and got the last one
	err   error        // of the last round
	ended bool
}

// digestRound is one reading, or one recomputation.
type digestRound struct {
	by   *Actor // who wants the digest recomputed; nil: no one
	done chan struct{}
	err  error // set before done is closed
}

// NewDigestCheck returns a DigestCheck that answers while Run runs. Metrics may be nil.
func NewDigestCheck(store DigestStore, log *slog.Logger, metrics prometheus.Registerer) *DigestCheck {
	c := &DigestCheck{store: store, log: log, asked: make(chan struct{}, 1), differs: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "waypost_changelog_digest_differs",
		Help: "1 when PostgreSQL's replicated rows did not add up to the changelog's digest at the last look.",
	})}
	if metrics != nil {
		metrics.MustRegister(c.differs)
	}
	return c
}

// Run reads the rows whenever that is wanted, until ctx ends.
func (c *DigestCheck) Run(ctx context.Context) {
	ticker := time.NewTicker(digestFresh)
	defer ticker.Stop()
	defer c.answerWaiters()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.asked:
		case <-ticker.C:
			if !c.due() {
				continue
			}
			c.ask(nil)
			<-c.asked
		}
		c.round(ctx)
	}
}

// due reports whether the rows are to be read although no caller waits for it.
func (c *DigestCheck) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := time.Since(c.lasts)
	return c.again && late >= 0 || c.last.Differs() && late >= digestAgain
}

// answerWaiters answers the callers that wait.
func (c *DigestCheck) answerWaiters() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if r := c.next; r != nil {
		c.next, r.err = nil, errEnding
		close(r.done)
	}
}

var errEnding = waypost.Errorf(waypost.EUnavailable, "the control plane is stopping")

// ask starts a round, or returns the round that is under way. The second result is false
// when the caller wants a recomputation and another round is under way.
func (c *DigestCheck) ask(by *Actor) (*digestRound, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		r := &digestRound{done: make(chan struct{}), err: errEnding}
		close(r.done)
		return r, true
	case c.next != nil:
		return c.next, by == nil
	}
	c.next = &digestRound{by: by, done: make(chan struct{})}
	c.asked <- struct{}{}
	return c.next, true
}

func (c *DigestCheck) round(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, digestTime)
	defer cancel()
	c.mu.Lock()
	r := c.next
	c.again = false
	c.mu.Unlock()
	if r.by != nil {
		r.err = c.store.Recompute(ctx, *r.by)
	}
	var found Digest
	if r.err == nil {
		found, r.err = c.store.AddUp(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == r {
		c.next = nil
	}
	c.err = r.err
	if r.err == nil {
		c.learn(found)
	} else {
		c.log.Warn("cannot compare PostgreSQL's rows with the digest of the changelog", "error", r.err)
	}
	close(r.done)
}

// learn takes in an answer. c.mu is held.
func (c *DigestCheck) learn(found Digest) {
	before := c.last.Differs()
	c.last, c.lasts = found, time.Now().Add(max(digestFresh, found.Took))
	switch {
	case found.Differs():
		c.differs.Set(1)
		if !before {
			c.log.Error("PostgreSQL's own rows do not add up to the digest of the changelog; edges continue, and are not repaired: "+
				"run 'waypost verify --source'", "digest", DigestText(found.Head), "rows_digest", DigestText(found.Rows),
				"position", found.Position, "records", found.Records)
		}
	case before:
		c.differs.Set(0)
		c.log.Info("found that PostgreSQL's rows add up to the digest of the changelog again", "position", found.Position)
	default:
		c.differs.Set(0)
	}
}

// Last returns the last answer. Before the first answer it returns zero, which does not
// differ.
func (c *DigestCheck) Last() Digest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// Sound returns [ErrDigest] if the rows are known not to add up to the digest. When the
// last answer is old, it has the rows read, and waits a short time for the result.
func (c *DigestCheck) Sound(ctx context.Context) error {
	c.mu.Lock()
	fresh := time.Now().Before(c.lasts)
	c.again = c.again || fresh
	c.mu.Unlock()
	if !fresh {
		r, _ := c.ask(nil)
		wait(ctx, r)
	}
	if last := c.Last(); last.Differs() {
		return ErrDigest
	}
	return nil
}

// wait waits for a round, and reports whether it has ended.
func wait(ctx context.Context, r *digestRound) bool {
	select {
	case <-r.done:
		return true
	case <-ctx.Done():
	case <-time.After(digestWait):
	}
	return false
}

// DigestState is the answer to an operator.
type DigestState struct {
	Running bool   // a round has not ended
	Err     error  // of the last round
	Digest  Digest // zero: none was read
}

// State returns the last answer, and whether a round is under way. That needs
// [Actor.CheckOperator].
func (c *DigestCheck) State(_ context.Context, actor Actor) (DigestState, error) {
	if err := actor.CheckOperator(); err != nil {
		return DigestState{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return DigestState{Running: c.next != nil, Err: c.err, Digest: c.last}, nil
}

// Check reads the rows, and with recompute it first replaces a wrong digest. A long round
// continues after Check has returned: see [DigestCheck.State]. That needs
// [Actor.CheckOperator].
func (c *DigestCheck) Check(ctx context.Context, actor Actor, recompute bool) (DigestState, error) {
	if err := actor.CheckOperator(); err != nil {
		return DigestState{}, err
	}
	var by *Actor
	if recompute {
		by = &actor
	}
	r, own := c.ask(by)
	if !own && wait(ctx, r) {
		r, own = c.ask(by)
	}
	if !own {
		return DigestState{}, waypost.Errorf(waypost.EUnavailable, "a comparison is under way; try again when it has ended")
	}
	if wait(ctx, r) && r.err != nil && !errors.Is(r.err, context.Canceled) {
		return DigestState{}, r.err
	}
	return c.State(ctx, actor)
}
