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
	asked   chan *Actor   // has the round that waits for Run, with the actor who recomputes, if any
	ended   chan struct{} // is closed when Run ends

	mu    sync.Mutex
	round chan struct{} // is closed when the round that was asked for ends; nil: there is none
	state DigestState
	lasts time.Time // until when the last answer counts
	again bool      // a caller wanted an answer, and got the last one
}

// NewDigestCheck returns a DigestCheck that answers while Run runs. Metrics may be nil.
func NewDigestCheck(store DigestStore, log *slog.Logger, metrics prometheus.Registerer) *DigestCheck {
	c := &DigestCheck{store: store, log: log, asked: make(chan *Actor, 1), ended: make(chan struct{})}
	c.differs = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "waypost_changelog_digest_differs",
		Help: "1 when PostgreSQL's replicated rows did not add up to the changelog's digest at the last look.",
	})
	if metrics != nil {
		metrics.MustRegister(c.differs)
	}
	return c
}

// Run reads the rows whenever that is wanted, until ctx ends.
func (c *DigestCheck) Run(ctx context.Context) {
	ticker := time.NewTicker(digestFresh)
	defer ticker.Stop()
	defer close(c.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case by := <-c.asked:
			c.compare(ctx, by)
		case <-ticker.C:
			if c.due() {
				c.ask(nil)
			}
		}
	}
}

// due reports whether the rows are to be read although no caller waits for it.
func (c *DigestCheck) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := time.Since(c.lasts)
	return c.again && late >= 0 || c.state.Digest.Differs() && late >= digestAgain
}

// ask starts a round, or returns the round that is under way. The second result is false
// when the caller wants a recomputation and another round is under way.
func (c *DigestCheck) ask(by *Actor) (round <-chan struct{}, own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.round != nil {
		return c.round, by == nil
	}
	c.round, c.state.Running, c.again = make(chan struct{}), true, false
	c.asked <- by
	return c.round, true
}

func (c *DigestCheck) compare(ctx context.Context, by *Actor) {
	ctx, cancel := context.WithTimeout(ctx, digestTime)
	defer cancel()
	var found Digest
	var err error
	if by != nil {
		err = c.store.Recompute(ctx, *by)
	}
	if err == nil {
		found, err = c.store.AddUp(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Err = err; err == nil {
		c.learn(found)
	} else {
		c.log.Warn("cannot compare PostgreSQL's rows with the digest of the changelog", "error", err)
	}
	close(c.round)
	c.round, c.state.Running = nil, false
}

// learn takes in an answer. c.mu is held.
func (c *DigestCheck) learn(found Digest) {
	before, now := c.state.Digest.Differs(), found.Differs()
	c.state.Digest, c.lasts = found, time.Now().Add(max(digestFresh, found.Took))
	c.differs.Set(map[bool]float64{true: 1}[now])
	switch {
	case now && !before:
		c.log.Error("PostgreSQL's own rows do not add up to the digest of the changelog; edges continue, and are not repaired: "+
			"run 'waypost verify --source'", "digest", DigestText(found.Head), "rows_digest", DigestText(found.Rows),
			"position", found.Position, "records", found.Records)
	case before && !now:
		c.log.Info("found that PostgreSQL's rows add up to the digest of the changelog again", "position", found.Position)
	}
}

// Last returns the last answer. Before the first answer it returns zero, which does not
// differ.
func (c *DigestCheck) Last() Digest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Digest
}

// Sound returns [ErrDigest] if the rows are known not to add up to the digest. When the
// last answer is old, it has the rows read, and waits a short time for the result.
func (c *DigestCheck) Sound(ctx context.Context) error {
	c.mu.Lock()
	fresh := time.Now().Before(c.lasts)
	c.again = c.again || fresh
	c.mu.Unlock()
	if !fresh {
		round, _ := c.ask(nil)
		c.wait(ctx, round)
	}
	if last := c.Last(); last.Differs() {
		return ErrDigest
	}
	return nil
}

// wait waits for a round, and reports whether it has ended.
func (c *DigestCheck) wait(ctx context.Context, round <-chan struct{}) bool {
	select {
	case <-round:
		return true
	case <-ctx.Done():
	case <-c.ended:
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
	return c.state, nil
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
	round, own := c.ask(by)
	if !own && c.wait(ctx, round) {
		round, own = c.ask(by)
	}
	if !own {
		return DigestState{}, waypost.Errorf(waypost.EUnavailable, "a comparison is under way; try again when it has ended")
	}
	ended := c.wait(ctx, round)
	state, err := c.State(ctx, actor)
	if ended && !state.Running && state.Err != nil && !errors.Is(state.Err, context.Canceled) {
		return DigestState{}, state.Err
	}
	return state, err
}
