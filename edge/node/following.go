package node

import (
	"context"
	"errors"
	"sync/atomic"

	"waypost/replication"
)

// following runs the follower of an edge, and renews it.
type following struct {
	build  func(before replication.Status) (*replication.Follower, error)
	now    atomic.Pointer[replication.Follower]
	renews chan chan error // answered when the next follower is there
}

// newFollowing runs nothing before run. The first follower knows the status of another
// process's follower.
func newFollowing(before replication.Status, build func(before replication.Status) (*replication.Follower, error)) (*following, error) {
	f := &following{build: build, renews: make(chan chan error)}
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
	for {
		if err := f.untilRenewed(ctx); err != nil {
			return err
		}
	}
}

// untilRenewed follows until there is another follower.
func (f *following) untilRenewed(ctx context.Context) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	follower := f.now.Load()
	go func() { done <- follower.Run(following) }()
	select {
	case err := <-done:
		return err
	case answer := <-f.renews:
		err := f.next(stop, done)
		answer <- err
		return err
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
