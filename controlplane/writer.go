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

// writer coalesces creates: while one transaction commits, what arrives meanwhile
// gathers into the next. The head of the changelog allows one commit at a time,
// so this is what makes many creates a second possible.
type writer struct {
	store  LinkStore
	minter *Minter
	log    *slog.Logger
	seldom rate.Sometimes // bounds what a database that is away writes into the log
	jobs   chan *job
	stop   context.CancelFunc
	done   chan struct{}
}

// job is the links of one request; each has its own outcome.
type job struct {
	ctx    context.Context
	wishes []*wish
	at     waypost.Position
	done   chan struct{}
}

// wish is one link on its way into the database.
type wish struct {
	link  *waypost.Link
	epoch uint32   // of a minted code; 0 for a custom one
	lease int64    // of a minted code; 0 for a custom one
	claim *Counter // of a custom code that is some counter's
	twin  *[32]byte
	added bool
	found bool // a link was there before
	err   error

	receipt *receipt // of the request; nil: it is not kept
	place   int      // in the request
}

// receipt is what the wishes of a request that may be sent again have in common.
type receipt struct {
	id      RequestID
	request [32]byte
	answer  func(sent []*wish, placed []Placement, at waypost.Position) (Answer, error)
}

// mint gives the wish a new code.
func (x *wish) mint(ctx context.Context, m *Minter) error {
	key, err := m.Mint(ctx)
	if err == nil {
		x.link.Code, x.epoch, x.lease = key.Code, key.Epoch, key.Lease
	}
	return err
}

const (
	maxQueuedJobs   = 4096
	commitTimeout   = 4 * time.Second
	maxMintAttempts = 64
	largeBatch      = waypost.MaxBulk / 2 // links
)

func newWriter(store LinkStore, minter *Minter, log *slog.Logger) *writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{store: store, minter: minter, log: log, seldom: rate.Sometimes{Interval: time.Second}, jobs: make(chan *job, maxQueuedJobs), stop: stop, done: make(chan struct{})}
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

// rounds is what the last commit tells of the next: how many callers there seem to be,
// and how long it is worth to wait for them.
type rounds struct {
	callers  int
	patience time.Duration
	idle     int // batches that nobody is waited for, since it was in vain
}

const (
	maxPatience  = 3 * time.Millisecond
	idleAfterAll = 16 // batches
)

// ended notes a commit: how many it had and who came meanwhile, and how long it took.
func (r *rounds) ended(callers int, took time.Duration) {
	r.callers, r.patience = callers, min(took/4, maxPatience)
	r.idle = max(r.idle-1, 0)
}

// worthwhile reports whether more than those who are here can be expected.
func (r *rounds) worthwhile(here int) bool { return r.idle == 0 && here < r.callers && r.patience > 0 }

// missed notes that not all came who were waited for. When it was far from all, they
// do not come in rounds.
func (r *rounds) missed(here int) {
	if here < r.callers*3/4 {
		r.idle = idleAfterAll
	}
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
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	at := w.settle(ctx, wishes)
	waiting = len(w.jobs) // before the callers of this batch come again
	for _, j := range batch {
		j.at = at
		close(j.done)
	}
	return waiting
}

// settle gives every wish its outcome, all in one transaction if that succeeds.
// When the database refuses the data of one, the halves are tried by themselves,
// so that it does not refuse the others.
func (w *writer) settle(ctx context.Context, wishes []*wish) waypost.Position {
	at, err := w.write(ctx, wishes)
	if half := splitAt(wishes); waypost.CodeOf(err) == waypost.EInvalid && half > 0 {
		for _, part := range [][]*wish{wishes[:half], wishes[half:]} {
			if later := w.settle(ctx, part); !later.IsZero() {
				at = later
			}
		}
		return at
	}
	if waypost.CodeOf(err) == waypost.EUnavailable || waypost.CodeOf(err) == waypost.EInternal {
		w.seldom.Do(func() { w.log.Warn("links could not be written", "links", len(wishes), "error", err) })
	}
	for _, x := range wishes {
		if err != nil && x.err == nil && !x.added {
			x.err = err
		}
	}
	return at
}

// write inserts wishes in one transaction. Minted codes that turn out to be taken
// by a custom one, or to be of an epoch that is over, are minted anew.
func (w *writer) write(ctx context.Context, wishes []*wish) (at waypost.Position, err error) {
	left := undecided(wishes)
	for range maxMintAttempts {
		if left = refuseTwins(left); len(left) == 0 {
			return at, nil
		}
		if err := w.remint(ctx, left, repeated(left)); err != nil {
			return at, err
		}
		epoch := newestEpoch(left)
		if w.minter.Discard(epoch); !fresh(left, epoch) {
			if err := w.remint(ctx, left, func(x *wish) bool { return x.epoch < epoch }); err != nil {
				return at, err
			}
			continue
		}
		placed, pos, err := w.store.InsertLinks(ctx, epoch, insertionsOf(left))
		if old := w.outdated(err, epoch); old != nil {
			if err := w.remint(ctx, left, old); err != nil {
				return at, err
			}
			continue
		}
		if err != nil {
			return at, err
		}
		at = pos
		var again []*wish
		for i, x := range left {
			if placed[i] == Taken && !x.link.Custom {
				again = append(again, x)
				continue
			}
			x.err = verdict(x.link, placed[i])
			x.added, x.found = x.err == nil, placed[i] == Found
		}
		left = again
		if err := w.remint(ctx, left, func(*wish) bool { return true }); err != nil {
			return at, err
		}
	}
	if len(left) == 0 {
		return at, nil
	}
	return at, waypost.Errorf(waypost.EUnavailable, "no free key was found")
}

// verdict says why a wish has come to nothing, nil when it has not.
func verdict(l *waypost.Link, p Placement) error {
	switch p {
	case Placed, Found:
		return nil
	case Issuable:
		return issuable(l.Code)
	case Answered:
		return errAnswered
	default:
		return taken(l.Code)
	}
}

// splitAt gives where to part wishes of which one is refused, 0 when they cannot be:
// those of one receipt stand and fall together.
func splitAt(wishes []*wish) int {
	together := func(i int) bool { return wishes[i].receipt != nil && wishes[i].receipt == wishes[i-1].receipt }
	half := len(wishes) / 2
	for i := half; i > 0; i-- {
		if !together(i) {
			return i
		}
	}
	for i := half + 1; i < len(wishes); i++ {
		if !together(i) {
			return i
		}
	}
	return 0
}

// undecided leaves out the wishes that an earlier try has brought to their end.
func undecided(wishes []*wish) (left []*wish) {
	for _, x := range wishes {
		if x.err == nil && !x.added {
			left = append(left, x)
		}
	}
	return left
}

func newestEpoch(wishes []*wish) (epoch uint32) {
	for _, x := range wishes {
		epoch = max(epoch, x.epoch)
	}
	return epoch
}

// fresh reports whether all minted codes are of the epoch.
func fresh(wishes []*wish, epoch uint32) bool {
	for _, x := range wishes {
		if !x.link.Custom && x.epoch < epoch {
			return false
		}
	}
	return true
}

func insertionsOf(wishes []*wish) []Insertion {
	links := make([]Insertion, len(wishes))
	var receipts map[*receipt]*Receipt
	var sent map[*receipt][]*wish
	for i, x := range wishes {
		links[i] = Insertion{Link: x.link, Disabled: !x.link.Active, Lease: x.lease, Claim: x.claim, Twin: x.twin}
		r := x.receipt
		if r == nil {
			continue
		}
		if receipts == nil {
			receipts, sent = make(map[*receipt]*Receipt), make(map[*receipt][]*wish)
		}
		if receipts[r] == nil {
			receipts[r] = &Receipt{ID: r.id, Request: r.request, Answer: func(placed []Placement, at waypost.Position) (Answer, error) {
				return r.answer(sent[r], placed, at)
			}}
		}
		links[i].Receipt = receipts[r]
		sent[r] = append(sent[r], x)
	}
	return links
}

// outdated tells which keys a write was refused for, and drops what else is left of
// their leases; nil when it was not refused for that.
func (w *writer) outdated(err error, epoch uint32) func(*wish) bool {
	if errors.Is(err, ErrEpoch) {
		w.minter.Discard(epoch + 1)
		return func(*wish) bool { return true }
	}
	if fenced, ok := errors.AsType[*FencedError](err); ok {
		w.minter.Revoke(fenced.Leases)
		return func(x *wish) bool { return slices.Contains(fenced.Leases, x.lease) }
	}
	if clash, ok := errors.AsType[*ClashError](err); ok {
		return func(x *wish) bool { return slices.Contains(clash.Links, x.link) }
	}
	return nil
}

// remint gives a new code to the minted links that which names.
func (w *writer) remint(ctx context.Context, wishes []*wish, which func(*wish) bool) error {
	for _, x := range wishes {
		if x.link.Custom || !which(x) {
			continue
		}
		if err := x.mint(ctx, w.minter); err != nil {
			return err
		}
	}
	return nil
}

// place is what only one link can have.
type place struct {
	domain waypost.DomainID
	code   waypost.Code
}

func placeOf(x *wish) place { return place{x.link.Domain, x.link.Code} }

// refuseTwins lets the first of several wishes for one custom code through.
func refuseTwins(wishes []*wish) (left []*wish) {
	seen := make(map[place]bool, len(wishes))
	for _, x := range wishes {
		if x.link.Custom && seen[placeOf(x)] {
			x.err = taken(x.link.Code)
			continue
		}
		seen[placeOf(x)] = seen[placeOf(x)] || x.link.Custom
		left = append(left, x)
	}
	return left
}

// repeated tells the minted codes that a custom one of the same batch wants.
func repeated(wishes []*wish) func(*wish) bool {
	custom := make(map[place]bool)
	for _, x := range wishes {
		if x.link.Custom {
			custom[placeOf(x)] = true
		}
	}
	return func(x *wish) bool { return custom[placeOf(x)] }
}

func issuable(code waypost.Code) error {
	return waypost.Errorf(waypost.EConflict, "the code %q has the form of a generated one and may be issued, or was: choose another, or one of another length", code)
}

func taken(code waypost.Code) error {
	return waypost.Errorf(waypost.EConflict, "the code %q is taken", code)
}
