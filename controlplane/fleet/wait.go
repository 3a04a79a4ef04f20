package fleet

import (
	"context"
	"time"

	"waypost"
	"waypost/controlplane"
)

// Applied is the result of waiting for edges.
type Applied struct {
	Edges  int      // live edges that have the change on their disks
	Behind []string // live edges that do not, by region and name, and then edges that may be alive
}

// maxWaiters bounds concurrent waiters. A caller beyond gets the present state at once.
const maxWaiters = 1024

// lookAgain is the interval at which a waiter checks which edges are alive.
const lookAgain = 250 * time.Millisecond

// WaitApplied returns once the live edges of this control plane's region, or of all
// regions, have the change at a position on their disks, after most, or when ctx ends.
// It does not wait for silent edges. Edges that report to another control plane are known
// by gossip, which is slower; without gossip, and right after the start, an edge that
// may be alive is behind because its state is unknown.
func (f *Fleet) WaitApplied(ctx context.Context, at waypost.Position, everywhere bool, most time.Duration) Applied {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	a, news := f.applied(at, everywhere)
	if len(a.Behind) == 0 || news == nil {
		return a
	}
	defer f.stopWaiting()
	if f.cfg.Ask != nil {
		f.cfg.Ask(at)
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return f.standing(at, everywhere)
		case <-news:
		case <-again.C:
		}
		f.mu.Lock()
		news = f.news
		f.mu.Unlock()
		if a = f.standing(at, everywhere); len(a.Behind) == 0 {
			return a
		}
	}
}

// applied returns the present state, and begins to wait if an edge is behind; it returns
// no channel when there are too many waiters.
func (f *Fleet) applied(at waypost.Position, everywhere bool) (Applied, <-chan struct{}) {
	f.mu.Lock()
	if f.waiters >= maxWaiters {
		f.mu.Unlock()
		return f.standing(at, everywhere), nil
	}
	f.waiters++
	if f.news == nil {
		f.news = make(chan struct{})
	}
	news := f.news // before the look, so that no report in between is missed
	f.mu.Unlock()
	a := f.standing(at, everywhere)
	if len(a.Behind) == 0 {
		f.stopWaiting()
	}
	return a, news
}

func (f *Fleet) stopWaiting() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters--
}

// tellWaiters wakes the waiters. The caller holds f.mu.
func (f *Fleet) tellWaiters() {
	if f.waiters > 0 {
		close(f.news)
		f.news = make(chan struct{})
	}
}

// standing returns which live edges have a position on their disks.
func (f *Fleet) standing(at waypost.Position, everywhere bool) (a Applied) {
	alive := make(map[string]bool)
	for _, e := range f.Edges() {
		if e.State != EdgeAlive {
			continue
		}
		alive[e.Node] = true
		switch {
		case !everywhere && e.Region != f.cfg.Region:
		case e.Synced.Epoch == at.Epoch && e.Synced.Seq >= at.Seq:
			a.Edges++
		default:
			a.Behind = append(a.Behind, e.Node)
		}
	}
	for _, p := range f.unheard() {
		if !alive[p.Node] && (everywhere || p.Region == f.cfg.Region) {
			a.Behind = append(a.Behind, p.Node)
		}
	}
	return a
}

const (
	// expectFor is the time after the start for which changes wait for edges that were
	// known before. Edges report every second, and try again as often.
	expectFor = 5 * time.Second

	// restartTime bounds the restart of an edge. An edge that has left may come back
	// within this time, and its next report may be lost with a control plane.
	restartTime = time.Minute
)

// Expect reads the edges that the store knows, so that changes wait for them until they
// have reported, for five seconds. It returns the edges that are not known to have left.
// It is called once, before Run.
func (f *Fleet) Expect(ctx context.Context, store controlplane.ProgressStore) ([]controlplane.EdgeProgress, error) {
	known, err := store.Progress(ctx)
	if err != nil {
		return nil, err
	}
	now := f.cfg.Now()
	var present []controlplane.EdgeProgress
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = now
	for _, p := range known {
		if p.Region == "" {
			continue // only clicks of this edge are known
		}
		if !p.Left || now.Sub(p.At) < restartTime {
			f.expected = append(f.expected, p)
		}
		if !p.Left {
			present = append(present, p)
		}
	}
	return present, nil
}

// unheard returns the edges that may be alive although this control plane has heard
// nothing of them: right after the start the edges that were known before, and later the
// edges that report to another control plane.
func (f *Fleet) unheard() (all []controlplane.EdgeProgress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	if now.Sub(f.started) < expectFor {
		for _, p := range f.expected {
			if f.nodes[p.Node] == nil {
				all = append(all, p)
			}
		}
	}
	for _, p := range f.noted {
		if p.Left || p.Region == "" || !p.At.After(f.started) || !f.elsewhere(&p, now) {
			continue
		}
		if n := f.nodes[p.Node]; n == nil || p.At.Sub(n.seen) > f.cfg.Silent {
			all = append(all, p)
		}
	}
	return all
}
