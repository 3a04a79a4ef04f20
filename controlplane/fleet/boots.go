package fleet

import (
	"context"
	"sync"
	"time"

	"waypost"
)

// BootStore keeps the boots of edges that may be serving, for all instances of the
// control plane. Many goroutines call it at once.
type BootStore interface {
	// NoteBoots stores reports of boots, and is durable when it returns. A boot that has
	// stopped stays so.
	NoteBoots(ctx context.Context, boots []Boot) error

	// Boots returns the boots that may be serving: all that were noted, without the boots
	// that have stopped, were continued, dropped, or declared gone.
	Boots(ctx context.Context) ([]Boot, error)

	// DropBoots drops boots that others have followed, except a boot of which a later
	// report was noted than the given one.
	DropBoots(ctx context.Context, followed []Boot) error
}

// Boot is one start of an edge.
type Boot struct {
	Node      string
	ID        waypost.BootID // zero: the edge has enrolled, and not reported yet
	Region    waypost.Region
	First, At time.Time      // when the first and the last report came
	Stopped   bool           // it serves no more
	Continues waypost.BootID // boot of the program before in the same process; zero: none
}

// bootReads reads a store for many waiters at once.
type bootReads struct {
	store BootStore
	turn  chan struct{} // holds a token while a read is under way

	mu   sync.Mutex
	next *bootRead // has not begun; nil: no caller waits for it
}

type bootRead struct {
	done  chan struct{}
	boots []Boot
	err   error
}

// readLimit bounds one read of the store.
const readLimit = 2 * time.Second

// read returns what the store has at a moment after the call.
func (r *bootReads) read(ctx context.Context) ([]Boot, error) {
	r.mu.Lock()
	n, first := r.next, r.next == nil
	if first {
		n = &bootRead{done: make(chan struct{})}
		r.next = n
	}
	r.mu.Unlock()
	if first {
		r.turn <- struct{}{} // a read takes at most readLimit
		r.mu.Lock()
		r.next = nil
		r.mu.Unlock()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit) // for the others as well
		n.boots, n.err = r.store.Boots(limited)
		cancel()
		close(n.done)
		<-r.turn
	}
	select {
	case <-n.done:
		return n.boots, n.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// presence is all that is known of one boot.
type presence struct {
	bootKey
	region      waypost.Region
	synced      waypost.Position
	first, last time.Time // reports, to any instance
	stopped     bool
	heard       bool // it has reported here lately, or gossips
	elsewhere   bool // it may report to another instance
	twin        bool // another boot of its name reports as well
}

// present returns the boots that may be serving, by what this instance has heard and by
// the rows of the store.
func (f *Fleet) present(stored []Boot) []*presence {
	hints := f.cfg.Hints()
	f.mu.Lock()
	defer f.mu.Unlock()
	now, all := f.cfg.Now(), make(map[bootKey]*presence, len(f.nodes)+len(stored))
	for i := range stored {
		b := &stored[i]
		key := bootKey{b.Node, b.ID}
		all[key] = &presence{
			bootKey: key, region: b.Region, first: b.First, last: b.At,
			elsewhere: now.Sub(b.At).Abs() <= f.cfg.Silent+noteSlack || now.Sub(f.started) < expectFor,
		}
	}
	for key, n := range f.nodes {
		heard := now.Sub(n.seen) <= f.cfg.Silent
		p := all[key]
		if p == nil {
			if n.noted && !heard {
				continue // it was dropped, or declared gone
			}
			p = &presence{bootKey: key}
			all[key] = p
		} else if p.last.Sub(n.seen) <= f.cfg.Silent { // no other instance knows more
			p.elsewhere = false
		}
		p.region, p.synced, p.stopped, p.heard = waypost.Region(n.report.Region), n.report.Synced, n.report.Leaving, heard
		if p.first.IsZero() || n.first.Before(p.first) {
			p.first = n.first
		}
		if p.last.Before(n.seen) {
			p.last = n.seen
		}
	}
	for i := range hints {
		h := &hints[i]
		key := bootKey{h.Node, h.Boot}
		if !h.Alive || now.Sub(h.LastHeard) > f.cfg.Silent {
			continue
		}
		p := all[key]
		if p == nil {
			p = &presence{bootKey: key, region: h.Region, first: h.LastHeard, last: h.LastHeard}
			all[key] = p
		}
		if !p.heard {
			p.synced, p.heard = h.Position, true
		}
	}
	return f.withoutFollowed(all, now)
}

// withoutFollowed leaves out boots that have stopped, and boots that another one of their
// name has followed: they have been silent since that one's first report. A boot that has
// reported since is a twin, and may be serving when it is silent.
func (f *Fleet) withoutFollowed(all map[bootKey]*presence, now time.Time) (some []*presence) {
	byNode := make(map[string][]*presence, len(all))
	for _, p := range all {
		byNode[p.node] = append(byNode[p.node], p)
	}
	for _, p := range all {
		if p.stopped {
			continue
		}
		followed, twin := false, false
		for _, o := range byNode[p.node] {
			if o == p || o.boot == (waypost.BootID{}) {
				continue
			}
			followed = followed || f.isFollowed(p.last, o.first, o.last, now)
			if !o.stopped && f.isTwin(p.first, p.last, o.first, o.last) {
				twin, p.twin = true, p.twin || o.heard || o.elsewhere
			}
		}
		if !followed || twin { // a boot that has followed a twin may be either one's
			some = append(some, p)
		}
	}
	return some
}

// isFollowed reports whether a boot with a last report was silent from the first report
// of another one on. Reports may be under way for a while.
func (f *Fleet) isFollowed(last, first, otherLast, now time.Time) bool {
	return now.Sub(last) > f.cfg.Silent && otherLast.After(last) && last.Sub(first) < f.cfg.Silent
}

// isTwin reports whether two boots have reported for the same time.
func (f *Fleet) isTwin(first, last, otherFirst, otherLast time.Time) bool {
	return last.Sub(otherFirst) >= f.cfg.Silent && otherLast.Sub(first) >= f.cfg.Silent
}

// followed returns the boots that another one has followed, by what this instance has
// heard and by the last read of the store. The caller holds f.mu.
func (f *Fleet) followed(now time.Time) (all []Boot) {
	byNode := make(map[string][]Boot)
	for key, b := range f.serving {
		if n := f.nodes[key]; n != nil && n.first.Before(b.First) {
			b.First = n.first
		}
		if n := f.nodes[key]; n != nil && n.seen.After(b.At) {
			b.At = n.seen
		}
		byNode[key.node] = append(byNode[key.node], b)
	}
	for key, n := range f.nodes {
		if _, stored := f.serving[key]; !stored {
			byNode[key.node] = append(byNode[key.node], *n.boot())
		}
	}
	for _, boots := range byNode {
		for i := range boots {
			b, followed, twin := &boots[i], false, false
			for j := range boots {
				o := &boots[j]
				if i == j || o.ID == (waypost.BootID{}) {
					continue
				}
				followed = followed || f.isFollowed(b.At, o.First, o.At, now)
				twin = twin || !o.Stopped && f.isTwin(b.First, b.At, o.First, o.At)
			}
			if followed && !twin {
				all = append(all, *b)
			}
		}
	}
	return all
}
