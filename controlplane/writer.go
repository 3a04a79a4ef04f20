package controlplane

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"waypost"
)

// writer coalesces creates: while one transaction commits, what arrives meanwhile
// gathers into the next. The head of the changelog allows one commit at a time,
// so this is what makes many creates a second possible.
type writer struct {
	store    LinkStore
	minter   *Minter
	patience time.Duration // with the store, for one commit
	log      *slog.Logger
	seldom   rate.Sometimes // bounds what a database that is away writes into the log
	jobs     chan *job
	stop     context.CancelFunc
	done     chan struct{}
}

// job is the links of one request; each has its own outcome.
type job struct {
	ctx    context.Context
	wishes []*wish
	at     waypost.Position
	done   chan struct{}
}

const (
	maxQueuedJobs = 4096
	commitTimeout = 4 * time.Second
	largeBatch    = waypost.MaxBulk / 2 // links
)

func newWriter(store LinkStore, minter *Minter, patience time.Duration, log *slog.Logger) *writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{store: store, minter: minter, patience: patience, log: log, seldom: rate.Sometimes{Interval: time.Second}, jobs: make(chan *job, maxQueuedJobs), stop: stop, done: make(chan struct{})}
	go w.run(ctx)
	return w
}

// close refuses new jobs and waits for the one that is being committed.
func (w *writer) close() {
	w.stop()
	<-w.done
}

// insert gives each wish its outcome, and the position of the transaction. The
// error is for all of them: the outcome is then unknown, unless the wishes were
// never taken up; they stay the writer's and must not be looked at.
func (w *writer) insert(ctx context.Context, wishes []*wish) (waypost.Position, error) {
	j := &job{ctx: ctx, wishes: wishes, done: make(chan struct{})}
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
		return waypost.Position{}, waypost.WrapError(waypost.EUnavailable, "the database did not answer in time; the link may or may not have been created", ctx.Err())
	}
}

// run gathers batches and commits them one after the other, so that small ones grow.
// Of large ones two are under way at once: the next waits at the head of the changelog
// already while the one before commits.
func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	var large sync.WaitGroup
	defer large.Wait()
	turns := make(chan struct{}, 2)
	var round rounds
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
		batch, n, held = w.gather(ctx, first, &round)
		turns <- struct{}{}
		if n < largeBatch {
			start := time.Now()
			waiting := w.commit(batch)
			round.ended(len(batch)+waiting, time.Since(start))
			<-turns
			continue
		}
		round = rounds{}
		large.Go(func() {
			w.commit(batch)
			<-turns
		})
	}
}

// gather takes what waits behind first, as much as fits into one transaction; held is
// what did not. Callers that were answered just now and are about to come back are
// waited for, shortly: else those who came while they were committed would commit
// without them, in turns for ever, at twice the number of commits.
func (w *writer) gather(ctx context.Context, first *job, round *rounds) (batch []*job, n int, held *job) {
	batch, n = []*job{first}, len(first.wishes)
	var late <-chan time.Time
	for n < waypost.MaxBulk {
		var j *job
		select {
		case j = <-w.jobs:
		default:
			if n >= largeBatch || !round.worthwhile(len(batch)) {
				return batch, n, nil
			}
			if late == nil {
				timer := time.NewTimer(round.patience)
				defer timer.Stop()
				late = timer.C
			}
			select {
			case j = <-w.jobs:
			case <-late:
				round.missed(len(batch))
				return batch, n, nil
			case <-ctx.Done():
				return batch, n, nil
			}
		}
		if n+len(j.wishes) > waypost.MaxBulk {
			return batch, n, j
		}
		batch = append(batch, j)
		n += len(j.wishes)
	}
	return batch, n, nil
}

// commit brings the jobs of a batch to their end, and tells how many have come meanwhile.
func (w *writer) commit(batch []*job) (waiting int) {
	var wishes []*wish
	for _, j := range batch {
		if err := j.ctx.Err(); err != nil { // nobody waits any more
			for _, x := range j.wishes {
				x.err = waypost.WrapError(waypost.EUnavailable, "the time was up before the write began; nothing was created", err)
			}
			continue
		}
		wishes = append(wishes, j.wishes...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.patience)
	defer cancel()
	at := w.settle(ctx, wishes)
	waiting = len(w.jobs) // before the callers of this batch come again
	for _, j := range batch {
		j.at = at
		close(j.done)
	}
	return waiting
}
