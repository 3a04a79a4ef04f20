package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"waypost"
	"waypost/api"
)

// The outcomes of waiting. An edge may be serving from its first report until it has said
// that it stopped or was declared gone, whether it is heard of or not.
const (
	OutcomeAll       = "all"       // every edge that may be serving has the change on its disk
	OutcomeRegion    = "region"    // likewise of the region
	OutcomeReachable = "reachable" // every edge has it except silent ones
	OutcomeNone      = "none"      // there is no edge
	OutcomeTimeout   = "timeout"   // some edges did not have it in time, or it is unknown which edges there are
)

// maxWaiters bounds concurrent waiters. A caller beyond gets the present state at once.
const maxWaiters = 1024

const (
	// lookAgain is the interval at which a waiter checks which edges are silent by now.
	lookAgain = 250 * time.Millisecond

	// readAgain is the number of such checks between two reads of the store.
	readAgain = 4

	// expectFor is the time after the start for which changes wait for edges that only the
	// store knows. Edges report every second, and try again as often.
	expectFor = 5 * time.Second
)

// WaitApplied returns once the edges of this control plane's region, or of all regions,
// have the change at a position on their disks, after most, or when ctx ends. The change
// is committed. WaitApplied does not wait for silent edges, and reports them. Edges that
// report to another control plane are known by gossip, which is slower; without gossip,
// and right after the start, an edge is behind because its state is unknown. All edges
// are named, by region and name.
func (f *Fleet) WaitApplied(ctx context.Context, at waypost.Position, everywhere bool, most time.Duration) api.Applied {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	news := f.startWaiting()
	if news != nil {
		defer f.stopWaiting()
		if f.cfg.Ask != nil {
			f.cfg.Ask(at)
		}
	}
	// An edge that is not in the store yet has everything up to this change before it
	// serves.
	boots, err := f.boots.read(ctx)
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for looks := 1; ; looks++ {
		a := f.standing(at, everywhere, boots)
		if err != nil {
			a.Outcome = OutcomeTimeout
		}
		if a.Outcome != OutcomeTimeout || news == nil || ctx.Err() != nil {
			return a
		}
		select {
		case <-ctx.Done():
		case <-news:
		case <-again.C:
			if looks%readAgain == 0 {
				if read, readErr := f.boots.read(ctx); readErr == nil {
					boots, err = read, nil
				}
			}
		}
		f.mu.Lock()
		news = f.news // before the next look, so that no report in between is missed
		f.mu.Unlock()
	}
}

// startWaiting returns a channel that the next report closes; nil when there are too many
// waiters.
func (f *Fleet) startWaiting() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiters >= maxWaiters {
		return nil
	}
	f.waiters++
	if f.news == nil {
		f.news = make(chan struct{})
	}
	return f.news
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

// standing returns which edges have a position on their disks. Stored are the boots that
// may be serving, by the store after the change.
func (f *Fleet) standing(at waypost.Position, everywhere bool, stored []Boot) (a api.Applied) {
	present := f.present(stored)
	slices.SortFunc(present, func(a, b *presence) int { return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.node, b.node)) })
	for _, p := range present {
		switch {
		case !everywhere && p.region != f.cfg.Region:
		case p.synced.Epoch == at.Epoch && p.synced.Seq >= at.Seq && !p.twin:
			a.Edges++
		case p.heard || p.elsewhere:
			a.Behind = append(a.Behind, p.node)
		default:
			a.Silent = append(a.Silent, p.node)
		}
	}
	a.Behind, a.Silent = slices.Compact(a.Behind), slices.Compact(a.Silent)
	switch {
	case len(a.Behind) > 0:
		a.Outcome = OutcomeTimeout
	case len(a.Silent) > 0:
		a.Outcome = OutcomeReachable
	case a.Edges == 0:
		a.Outcome = OutcomeNone
	case everywhere:
		a.Outcome = OutcomeAll
	default:
		a.Outcome = OutcomeRegion
	}
	return a
}
