package limit

import (
	"context"
	"time"
)

// Turns lets a few do something at a time. Others wait for their turn, in the order in which
// they came, for a while. Its methods may be called by many goroutines at once.
type Turns struct {
	slots    chan struct{}
	patience time.Duration
}

// NewTurns allows so many at a time, and lets others wait for so long.
func NewTurns(most int, patience time.Duration) *Turns {
	return &Turns{slots: make(chan struct{}, most), patience: patience}
}

// Enter waits, and reports whether it is the caller's turn; then the caller calls leave when
// it is over.
func (t *Turns) Enter(ctx context.Context) (leave func(), ok bool) {
	leave = func() { <-t.slots }
	select {
	case t.slots <- struct{}{}:
		return leave, true
	default:
	}
	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	select {
	case t.slots <- struct{}{}:
		return leave, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, false
}
