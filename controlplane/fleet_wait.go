package controlplane

import (
	"context"
	"time"

	"waypost"
)

// Applied is the result of waiting for edges.
type Applied struct {
	Edges  int      // live ones that have the change on their disks
	Behind []string // live ones that do not, by region and name
}

// maxWaiters bounds concurrent waiters. A caller beyond gets the present state at once.
const maxWaiters = 1024

// lookAgain is the interval at which a waiter checks which edges are alive.
const lookAgain = 250 * time.Millisecond

// WaitApplied returns once the live edges of this control plane's region, or of all
// regions, have the change at a position on their disks, after most, or when ctx ends.
// It does not wait for silent edges, which catch up before they serve again. Edges that
// report to another control plane are known by gossip, which is slower.
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

// applied returns the present state, and begins to wait if an edge is behind; without a
// channel there are too many waiters.
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
	for _, e := range f.Edges() {
		switch {
		case e.State != EdgeAlive || !everywhere && e.Region != f.cfg.Region:
		case e.Synced.Epoch == at.Epoch && e.Synced.Seq >= at.Seq:
			a.Edges++
		default:
			a.Behind = append(a.Behind, e.Node)
		}
	}
	return a
}
