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
	build func() (*replication.Follower, error)
	now   atomic.Pointer[replication.Follower]
	holds chan *held

	mu   sync.Mutex
	held *held // nil: it is not, and is not to be
}

// held is one time of holding.
type held struct {
	stopped chan struct{} // closed when nothing is applied any more
	over    chan struct{} // closed when it may go on
}

func newHeld() *held { return &held{stopped: make(chan struct{}), over: make(chan struct{})} }

// newFollowing begins held, if that is wanted, and runs nothing before run.
func newFollowing(hold bool, build func() (*replication.Follower, error)) (*following, error) {
	f := &following{build: build, holds: make(chan *held)}
	if hold {
		f.held = newHeld()
	}
	first, err := build()
	if err != nil {
		return nil, err
	}
	f.now.Store(first)
	return f, nil
}

// status is that of the follower that runs, or of the last one.
func (f *following) status() replication.Status { return f.now.Load().Status() }

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
	case h := <-f.holds:
		stop()
		err := <-done               // what else it may say the next will say again
		next, buildErr := f.build() // a follower runs once
		if buildErr != nil {
			return nil, errors.Join(err, buildErr)
		}
		f.now.Store(next)
		close(h.stopped)
		return h, nil
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
