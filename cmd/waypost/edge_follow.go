package main

import (
	"context"
	"errors"
	"sync/atomic"

	"waypost/replication"
)

// following runs the follower of an edge, and can be held: then nothing is applied
// until it is let go.
type following struct {
	build func() (*replication.Follower, error)
	now   atomic.Pointer[replication.Follower]
	holds chan held
	free  chan struct{} // has a token when a held one may go on
}

type held struct{ stopped chan struct{} }

// newFollowing begins held, if that is wanted, and runs nothing before run.
func newFollowing(hold bool, build func() (*replication.Follower, error)) (*following, error) {
	f := &following{build: build, holds: make(chan held), free: make(chan struct{}, 1)}
	first, err := build()
	if err != nil {
		return nil, err
	}
	f.now.Store(first)
	if !hold {
		f.free <- struct{}{}
	}
	return f, nil
}

// status is that of the follower that runs, or of the last one.
func (f *following) status() replication.Status { return f.now.Load().Status() }

// run follows until ctx ends, or an error is fatal.
func (f *following) run(ctx context.Context) error {
	for {
		select {
		case <-f.free:
		case h := <-f.holds: // held already
			close(h.stopped)
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		following, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		follower := f.now.Load()
		go func() { done <- follower.Run(following) }()
		select {
		case err := <-done:
			stop()
			return err
		case h := <-f.holds:
			stop()
			err := <-done               // it was ended; what else it may say it would say again
			next, buildErr := f.build() // a follower runs once
			if buildErr != nil {
				return errors.Join(err, buildErr)
			}
			f.now.Store(next)
			close(h.stopped)
		}
	}
}

// hold ends the following, until resume.
func (f *following) hold(ctx context.Context) error {
	h := held{stopped: make(chan struct{})}
	select {
	case f.holds <- h:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-h.stopped:
		return nil
	case <-ctx.Done():
		f.resume() // once it has stopped
		return ctx.Err()
	}
}

// resume lets a held one go on.
func (f *following) resume() {
	select {
	case f.free <- struct{}{}:
	default:
	}
}
