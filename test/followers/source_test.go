package followers_test

import (
	"context"
	"sync"

	"waypost"
	"waypost/controlplane/postgres"
	"waypost/edge/replica"
	"waypost/replication"
)

// width is that of the ranges of slots in which all sources of the test are read, so that
// a small snapshot has several.
const width = waypost.Slots / 8

// origin is PostgreSQL as a source. What is written with whole held comes in one reading.
type origin struct {
	*postgres.DB
	whole sync.RWMutex

	mu     sync.Mutex
	before func() // the next reading of slots; nil: nothing
}

// meanwhile has something done after the next follower that wants slots was told where
// the head is, and before any is read for it. Nil takes it back.
func (o *origin) meanwhile(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.before = do
}

func (o *origin) first() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.before != nil {
		o.before()
		o.before = nil
	}
}

func (o *origin) SnapshotWidth(context.Context) (int, error) { return width, nil }

func (o *origin) Read(ctx context.Context, after waypost.Position, records int) (replication.Batch, error) {
	o.whole.RLock()
	defer o.whole.RUnlock()
	return o.DB.Read(ctx, after, records)
}

func (o *origin) Head(ctx context.Context) (replication.Head, error) {
	o.whole.RLock()
	defer o.whole.RUnlock()
	return o.DB.Head(ctx)
}

func (o *origin) Snapshot(ctx context.Context, first, last uint16, visit func([]byte) error) (replication.Head, error) {
	o.first()
	return o.DB.Snapshot(ctx, first, last, visit)
}

func (o *origin) Sums(ctx context.Context, first, last uint16) ([]replication.Sum, replication.Head, error) {
	o.first()
	return o.DB.Sums(ctx, first, last)
}

// narrow is a replica as a source.
type narrow struct{ *replica.DB }

func (narrow) SnapshotWidth(context.Context) (int, error) { return width, nil }
