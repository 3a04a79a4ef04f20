package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"waypost/replication"
)

// following runs the follower of an edge, and can be held: then nothing is applied
// until it may go on.
type following struct {
	build  func(before replication.Status) (*replication.Follower, error)
	now    atomic.Pointer[replication.Follower]
	holds  chan *held
	renews chan chan error // who asks hears when the next follower is there

	mu   sync.Mutex
	held *held // nil: it is not, and is not to be
}

// held is one time of holding.
type held struct {
	stopped chan struct{} // closed when nothing is applied any more
	over    chan struct{} // closed when it may go on
}

func newHeld() *held { return &held{stopped: make(chan struct{}), over: make(chan struct{})} }

// newFollowing begins held, if that is wanted, and runs nothing before run. The first follower has
// heard what another process has.
func newFollowing(hold bool, before replication.Status, build func(before replication.Status) (*replication.Follower, error)) (*following, error) {
	f := &following{build: build, holds: make(chan *held), renews: make(chan chan error)}
	if hold {
		f.held = newHeld()
	}
	first, err := build(before)
	if err != nil {
		return nil, err
	}
	f.now.Store(first)
	return f, nil
}

// Status is that of the follower that runs, or of the last one.
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

// untilHeld follows until it is to stop for a while.
func (f *following) untilHeld(ctx context.Context) (*held, error) {
	following, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	follower := f.now.Load()
	go func() { done <- follower.Run(following) }()
	select {
	case err := <-done:
		return nil, err
	case told := <-f.renews:
		err := f.next(stop, done)
		told <- err
		return nil, err
	case h := <-f.holds:
		if err := f.next(stop, done); err != nil {
			return nil, err
		}
		close(h.stopped)
		return h, nil
	}
}

// next ends a follower, and makes another one: a follower runs once.
func (f *following) next(stop func(), done <-chan error) error {
	stop()
	err := <-done // what else it may say the next will say again
	next, buildErr := f.build(f.Status())
	if buildErr != nil {
		return errors.Join(err, buildErr)
	}
	f.now.Store(next)
	return nil
}

// Renew goes on with another follower, of whatever is to be followed now.
func (f *following) Renew(ctx context.Context) error {
	told := make(chan error, 1)
	select {
	case f.renews <- told:
		return <-told
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold ends the following, until resume. After an error it goes on.
func (f *following) hold(ctx context.Context) error {
	h := newHeld()
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

// resume lets it go on, if it is held.
func (f *following) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held != nil {
		close(f.held.over)
		f.held = nil
	}
}
