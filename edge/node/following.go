package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"waypost/replication"
)

// following runs the follower of an edge, and can be held: then nothing is applied until
// resume.
type following struct {
	build  func(before replication.Status) (*replication.Follower, error)
	now    atomic.Pointer[replication.Follower]
	holds  chan *hold
	renews chan chan error // answered when the next follower is there

	mu   sync.Mutex
	held *hold // nil: not held, and not about to be
}

// hold is one period without changes.
type hold struct {
	stopped chan struct{} // closed when nothing is applied any more
	over    chan struct{} // closed by resume
}

func newHold() *hold { return &hold{stopped: make(chan struct{}), over: make(chan struct{})} }

// newFollowing begins held if held is true, and runs nothing before run. The first
// follower knows the status of another process's follower.
func newFollowing(
	held bool, before replication.Status, build func(before replication.Status) (*replication.Follower, error),
) (*following, error) {
	f := &following{build: build, holds: make(chan *hold), renews: make(chan chan error)}
	if held {
		f.held = newHold()
	}
	first, err := build(before)
	if err != nil {
		return nil, err
	}
	f.now.Store(first)
	return f, nil
}

// Status returns the status of the follower that runs, or of the last one.
func (f *following) Status() replication.Status { return f.now.Load().Status() }

// run follows until ctx ends, or an error is fatal.
func (f *following) run(ctx context.Context) error {
	f.mu.Lock()
	h := f.held
	f.mu.Unlock()
	for {
		if h != nil {
			select {
			case <-h.over:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var err error
		if h, err = f.untilHeld(ctx); err != nil {
			return err
		}
	}
}

// untilHeld follows until it is held.
func (f *following) untilHeld(ctx context.Context) (*hold, error) {
	following, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	follower := f.now.Load()
	go func() { done <- follower.Run(following) }()
	select {
	case err := <-done:
		return nil, err
	case answer := <-f.renews:
		err := f.next(stop, done)
		answer <- err
		return nil, err
	case h := <-f.holds:
		if err := f.next(stop, done); err != nil {
			return nil, err
		}
		close(h.stopped)
		return h, nil
	}
}

// next ends a follower, and makes another one, because a follower runs once.
func (f *following) next(stop func(), done <-chan error) error {
	stop()
	err := <-done // if the cause lasts, the next follower reports it again
	next, buildErr := f.build(f.Status())
	if buildErr != nil {
		return errors.Join(err, buildErr)
	}
	f.now.Store(next)
	return nil
}

// Renew continues with another follower, which chooses its source again.
func (f *following) Renew(ctx context.Context) error {
	answer := make(chan error, 1)
	select {
	case f.renews <- answer:
		return <-answer
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold stops the following until resume. After an error it continues.
func (f *following) hold(ctx context.Context) error {
	h := newHold()
	f.mu.Lock()
	f.held = h
	f.mu.Unlock()
	select {
	case f.holds <- h:
		select {
		case <-h.stopped:
			return nil
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	f.resume()
	return ctx.Err()
}

// resume continues the following, if it is held.
func (f *following) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		close(f.held.over)
		f.held = nil
	}
}
