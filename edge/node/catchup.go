package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
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
	to   waypost.Position // of the replica, on the disk; zero: the edge serves at once
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

// catchUpOnDisk lets this edge serve once its replica has on the disk what it must have.
func (e *edge) catchUpOnDisk(ctx context.Context) {
	c := &e.catchUp
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for at := e.store.Position(); at.Epoch.Ordinal <= c.to.Epoch.Ordinal; at = e.store.Position() {
		if at.Epoch == c.to.Epoch && at.Seq >= c.to.Seq && !e.store.Repairing() {
			break
		}
		if err := e.store.Degraded(); errors.Is(err, syscall.EROFS) { // the disk takes no change
			e.log.Warn("cannot catch up with the control plane; serving the links on disk", "error", err)
			c.done.Store(true)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	if err := e.store.Sync(); err != nil {
		e.log.Warn("cannot sync the replica before the first answer", "error", err)
	}
	c.done.Store(true)
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
	c := &e.catchUp
	if c.done.Load() || c.to.IsZero() {
		return true
	}
	if time.Now().Before(c.by) {
		return false
	}
	if !c.done.Swap(true) {
		e.log.Warn("cannot catch up with the control plane; serving the links on disk",
			"position", e.store.Position().String(), "head", c.to.String())
	}
	return true
}
