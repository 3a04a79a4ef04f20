package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"waypost"
)

// writer groups creates: while one transaction commits, the links that arrive gather into
// the next. The head of the changelog allows one commit at a time, so that only groups
// make many creates a second possible.
type writer struct {
	store    LinkStore
	minter   Minter
	patience time.Duration // with the store, for one commit
	log      *slog.Logger
	seldom   rate.Sometimes // limits the warnings while the database is away
	jobs     chan *job
	stop     context.CancelFunc
	done     chan struct{}
}

// job is the links of one request; each has its own outcome.
type job struct {
	ctx     context.Context
	pending []*pendingLink
	at      waypost.Position
	done    chan struct{}
}

const (
	maxQueuedJobs   = 4096
	commitTimeout   = 4 * time.Second
	largeBatch      = waypost.MaxBulk / 2 // links
	maxMintAttempts = 64
)

func newWriter(store LinkStore, minter Minter, patience time.Duration, log *slog.Logger) *writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{
		store: store, minter: minter, patience: patience, log: log, seldom: rate.Sometimes{Interval: time.Second},
		jobs: make(chan *job, maxQueuedJobs), stop: stop, done: make(chan struct{}),
	}
	go w.run(ctx)
	return w
}

// close refuses new jobs and waits for the commit under way.
func (w *writer) close() {
	w.stop()
	<-w.done
}

// insert sets the outcome of each pending link, and returns the position of the
// transaction. An error concerns all links: their outcome is then unknown, unless the job
// was never taken up. The writer keeps the links then, and the caller must not read them.
func (w *writer) insert(ctx context.Context, pending []*pendingLink) (waypost.Position, error) {
	j := &job{ctx: ctx, pending: pending, done: make(chan struct{})}
	select {
	case w.jobs <- j:
	case <-w.done:
		return waypost.Position{}, waypost.Errorf(waypost.EUnavailable, "this control plane is shutting down")
	case <-ctx.Done():
		return waypost.Position{}, waypost.WrapError(waypost.EUnavailable, "too many writes are waiting; nothing was created", ctx.Err())
	}
	select {
	case <-j.done:
		return j.at, nil
	case <-w.done:
		select { // finished just before the end?
		case <-j.done:
			return j.at, nil
		default:
			return waypost.Position{}, waypost.Errorf(waypost.EUnavailable, "this control plane is shutting down")
		}
	case <-ctx.Done():
		return waypost.Position{}, waypost.WrapError(waypost.EUnavailable,
			"the database did not answer in time; the link may or may not have been created", ctx.Err())
	}
}

// run gathers batches and commits them one after the other, so that small ones grow.
// Two large batches are under way at once: the second waits at the head of the changelog
// while the first commits.
func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	var large sync.WaitGroup
	defer large.Wait()
	slots := make(chan struct{}, 2)
	var g grouping
	var held *job // did not fit into the last transaction
	for {
		if ctx.Err() != nil {
			return
		}
		first := held
		if first == nil {
			select {
			case <-ctx.Done():
				return
			case first = <-w.jobs:
			}
		}
		var batch []*job
		var n int
		batch, n, held = w.gather(ctx, first, &g)
		slots <- struct{}{}
		if n < largeBatch {
			start := time.Now()
			waiting := w.commit(batch)
			g.committed(len(batch)+waiting, time.Since(start))
			<-slots
			continue
		}
		g = grouping{}
		large.Go(func() {
			w.commit(batch)
			<-slots
		})
	}
}

// gather takes the jobs that wait behind first, as many as fit into one transaction, and
// returns the job that did not fit. It waits shortly for callers that were answered just
// now and are about to return. Otherwise these callers, and the callers that came during
// the last commit, would commit in turns, with twice the number of commits.
func (w *writer) gather(ctx context.Context, first *job, g *grouping) (batch []*job, n int, held *job) {
	batch, n = []*job{first}, len(first.pending)
	var late <-chan time.Time
	for n < waypost.MaxBulk {
		var j *job
		select {
		case j = <-w.jobs:
		default:
			if n >= largeBatch || !g.worthwhile(len(batch)) {
				return batch, n, nil
			}
			if late == nil {
				timer := time.NewTimer(g.maxWait)
				defer timer.Stop()
				late = timer.C
			}
			select {
			case j = <-w.jobs:
			case <-late:
				g.missed(len(batch))
				return batch, n, nil
			case <-ctx.Done():
				return batch, n, nil
			}
		}
		if n+len(j.pending) > waypost.MaxBulk {
			return batch, n, j
		}
		batch = append(batch, j)
		n += len(j.pending)
	}
	return batch, n, nil
}

// commit settles the jobs of a batch, and returns the number of jobs that have arrived
// during the commit.
func (w *writer) commit(batch []*job) (waiting int) {
	var pending []*pendingLink
	for _, j := range batch {
		if err := j.ctx.Err(); err != nil { // its caller has stopped waiting
			for _, x := range j.pending {
				x.err = waypost.WrapError(waypost.EUnavailable, "the time was up before the write began; nothing was created", err)
			}
			continue
		}
		pending = append(pending, j.pending...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.patience)
	defer cancel()
	at := w.settleLinks(ctx, pending)
	waiting = len(w.jobs) // before the callers of this batch return
	for _, j := range batch {
		j.at = at
		close(j.done)
	}
	return waiting
}

// settleLinks sets the outcome of every pending link, in one transaction if that
// succeeds. When the database refuses the data of one link, each half is tried alone, so
// that the bad link does not fail the others.
func (w *writer) settleLinks(ctx context.Context, pending []*pendingLink) waypost.Position {
	at, err := w.write(ctx, pending)
	if half := splitAt(pending); (waypost.CodeOf(err) == waypost.EInvalid || waypost.CodeOf(err) == waypost.EConflict) && half > 0 {
		for _, part := range [][]*pendingLink{pending[:half], pending[half:]} {
			if later := w.settleLinks(ctx, part); !later.IsZero() {
				at = later
			}
		}
		return at
	}
	if waypost.CodeOf(err) == waypost.EUnavailable || waypost.CodeOf(err) == waypost.EInternal {
		w.seldom.Do(func() { w.log.Warn("cannot write links", "links", len(pending), "error", err) })
	}
	for _, x := range pending {
		if err != nil && !x.decided() {
			x.err = err
		}
	}
	return at
}

// write inserts links in one transaction. Links that wait for an earlier link with the
// same custom code follow in further transactions. write replaces a minted code that a
// custom code has taken, or that belongs to an earlier epoch.
func (w *writer) write(ctx context.Context, pending []*pendingLink) (at waypost.Position, err error) {
	left := undecided(pending)
	for range maxMintAttempts {
		now, later := splitRepeated(left)
		if len(now) == 0 {
			return at, nil
		}
		if err := w.remint(ctx, left, clashing(left)); err != nil {
			return at, err
		}
		epoch := newestEpoch(now)
		if w.minter.Discard(epoch); !fresh(now, epoch) {
			if err := w.remint(ctx, left, func(x *pendingLink) bool { return x.epoch < epoch }); err != nil {
				return at, err
			}
			continue
		}
		placed, pos, err := w.store.InsertLinks(ctx, epoch, insertionsOf(now))
		if refused := w.refused(err, epoch); refused != nil {
			if err := w.remint(ctx, left, refused); err != nil {
				return at, err
			}
			continue
		}
		if err != nil {
			return at, err
		}
		at = pos
		var taken []*pendingLink
		for i, x := range now {
			if placed[i] == Taken && !x.link.Custom {
				taken = append(taken, x)
				continue
			}
			x.err, x.replayed, x.aliasTaken = placementError(x, placed[i]), placed[i] == Replayed, placed[i] == AliasTaken
			x.added, x.found = x.err == nil && !x.replayed, placed[i] == Found
		}
		if err := w.remint(ctx, taken, func(*pendingLink) bool { return true }); err != nil {
			return at, err
		}
		left = slices.Concat(taken, settleRepeated(later))
	}
	if len(left) == 0 {
		return at, nil
	}
	return at, waypost.Errorf(waypost.EUnavailable, "no free key was found")
}

// refused returns a function that reports whether a write was refused for the code of a
// link; nil when it was refused for another reason.
func (w *writer) refused(err error, epoch uint32) func(*pendingLink) bool {
	if w.minter.DropRefused(err, epoch) {
		fenced, ok := errors.AsType[*FencedError](err)
		return func(x *pendingLink) bool { return !ok || slices.Contains(fenced.Leases, x.lease) }
	}
	if clash, ok := errors.AsType[*ClashError](err); ok {
		return func(x *pendingLink) bool { return slices.Contains(clash.Links, x.link) }
	}
	return nil
}

// remint sets new codes of the minted links that which selects.
func (w *writer) remint(ctx context.Context, pending []*pendingLink, which func(*pendingLink) bool) error {
	for _, x := range pending {
		if x.link.Custom || !which(x) {
			continue
		}
		if err := x.mint(ctx, w.minter); err != nil {
			return err
		}
	}
	return nil
}

// grouping estimates from the last commit the number of callers, and the time for which
// to wait for them.
type grouping struct {
	callers int
	maxWait time.Duration // for more of them
	idle    int           // batches that do not wait, because the last wait was in vain
}

const (
	longestWait  = 3 * time.Millisecond
	idleAfterAll = 16 // batches
)

// committed notes a commit: the number of jobs in it or arrived during it, and its
// duration.
func (g *grouping) committed(callers int, took time.Duration) {
	g.callers, g.maxWait = callers, min(took, longestWait)
	g.idle = max(g.idle-1, 0)
}

// worthwhile reports whether more callers than those who are here can be expected.
func (g *grouping) worthwhile(here int) bool {
	return g.idle == 0 && here < g.callers && g.maxWait > 0
}

// missed notes that some expected callers did not arrive. When fewer than three quarters
// of the callers are here, callers seem not to return at once after an answer.
func (g *grouping) missed(here int) {
	if here < g.callers*3/4 {
		g.idle = idleAfterAll
	}
}
