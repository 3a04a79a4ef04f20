package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"waypost"
	"waypost/edge/report"
)

const (
	// announceLimit bounds the delay of a start while no control plane answers.
	announceLimit = 500 * time.Millisecond

	// catchUpLimit bounds the delay of a start by changes that do not come, although a
	// control plane answers. They may be held back, or their source may be away.
	catchUpLimit = 10 * time.Second
)

// catchingUp holds an edge back from serving after its start.
type catchingUp struct {
	to   waypost.Position // of the replica; zero: the edge serves at once
	by   time.Time        // then it serves in any case
	done atomic.Bool
}

// announceStart reports to the control planes that this edge is about to serve, and
// learns which changes it must have before. While it was off, no change waited for it.
func (e *edge) announceStart(ctx context.Context) {
	var mu sync.Mutex
	c := &e.catchUp
	e.everyReporter(func(r *report.Reporter) {
		at := r.Announce(ctx, announceLimit)
		mu.Lock()
		defer mu.Unlock()
		if at.Epoch.Ordinal > c.to.Epoch.Ordinal || at.Epoch == c.to.Epoch && at.Seq > c.to.Seq {
			c.to = at
		}
	})
	c.by = time.Now().Add(catchUpLimit)
	if !e.serves() { // it has nothing old to serve
		c.to = waypost.Position{}
	}
}

// awaitCatchUp waits until this edge may serve after its start. It returns false when ctx
// ends first.
func (e *edge) awaitCatchUp(ctx context.Context) bool {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !e.caughtUp() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// caughtUp reports whether this edge may serve after its start.
func (e *edge) caughtUp() bool {
	c, at := &e.catchUp, e.store.Position()
	late := time.Now().After(c.by)
	switch {
	case c.done.Load():
		return true
	case c.to.IsZero(), at.Epoch.Ordinal > c.to.Epoch.Ordinal, at.Epoch == c.to.Epoch && at.Seq >= c.to.Seq && !e.store.Repairing(), late:
	default:
		return false
	}
	if !c.done.Swap(true) && late {
		e.log.Warn("cannot catch up with the control plane; serving the links on disk", "position", at.String(), "head", c.to.String())
	}
	return true
}
