package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
	added bool
	err   error
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

func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	var held *job // did not fit into the last transaction
	for {
		if ctx.Err() != nil {
			return
		}
		first := held
		held = nil
		if first == nil {
			select {
			case <-ctx.Done():
				return
			case first = <-w.jobs:
			}
		}
		batch := []*job{first}
		n := len(first.wishes)
	gather:
		for n < waypost.MaxBulk {
			select {
			case j := <-w.jobs:
				if n+len(j.wishes) > waypost.MaxBulk {
					held = j
					break gather
				}
				batch = append(batch, j)
				n += len(j.wishes)
			default:
				break gather
			}
		}
		w.commit(batch)
	}
}

// commit brings the jobs of a batch to their end.
func (w *writer) commit(batch []*job) {
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
	for _, j := range batch {
		j.at = at
		close(j.done)
	}
}

// settle gives every wish its outcome, all in one transaction if that succeeds.
// When the database refuses the data of one, the halves are tried by themselves,
// so that it does not refuse the others.
func (w *writer) settle(ctx context.Context, wishes []*wish) waypost.Position {
	at, err := w.write(ctx, wishes)
	if waypost.CodeOf(err) == waypost.EInvalid && len(wishes) > 1 {
		half := len(wishes) / 2
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
			switch {
			case placed[i] == Placed:
				x.added = true
			case placed[i] == Issuable:
				x.err = issuable(x.link.Code)
			case x.link.Custom:
				x.err = taken(x.link.Code)
			default:
				again = append(again, x)
			}
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
	for i, x := range wishes {
		links[i] = Insertion{Link: x.link, Lease: x.lease, Claim: x.claim}
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
