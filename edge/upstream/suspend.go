package upstream

import (
	"context"
	"time"
)

// Suspend ends the asking, and waits until no answer that was given is ahead of the
// replica any more, or ctx ends: then the error is ctx's. Without it, whoever goes on from the
// replica alone may show links in an older state than visitors have seen.
func (l *Links) Suspend(ctx context.Context) error {
	l.suspended.Store(true)
	const look = 5 * time.Millisecond
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for !l.settled() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Resume lets questions be asked again.
func (l *Links) Resume() { l.suspended.Store(false) }

func (l *Links) settled() bool {
	now := l.cfg.Clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.flights) == 0 && l.heldCount(now) == 0
}
