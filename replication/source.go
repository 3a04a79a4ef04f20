package replication

import (
	"context"

	"waypost"
)

// Source is a changelog that followers can read. All methods may be called by
// many goroutines at once.
type Source interface {
	// Head returns the newest committed position.
	Head(ctx context.Context) (Head, error)

	// Read returns the transactions that follow after, at least one and at most about
	// maxRecords records (always whole transactions, and a batch with a Frame is not cut);
	// an empty batch when after is the head. It fails with ErrTrimmed, ErrOtherHistory or
	// ErrBehind as above; any other error may pass, and is worth another try.
	Read(ctx context.Context, after waypost.Position, maxRecords int) (Batch, error)

	// Snapshot reads the slots first to last (inclusive) as they stand at one position, and
	// returns that position. Records come in no particular order; the bytes passed to visit
	// are valid until it returns. An error of visit ends the reading and is returned.
	Snapshot(ctx context.Context, first, last uint16, visit func(record []byte) error) (Head, error)

	// Sums returns the sums of the slots first to last (inclusive), as they stand at one
	// position, and that position.
	Sums(ctx context.Context, first, last uint16) ([]Sum, Head, error)

	// SnapshotWidth returns the number of slots to read at once, a power of two, chosen so
	// that one reading stays short.
	SnapshotWidth(ctx context.Context) (int, error)

	// Changed returns a channel that is closed at the next hint that the head moved. It is
	// a hint only: followers poll as well.
	Changed() <-chan struct{}
}

// Relay is a Source that gets its changelog from another Source. Its Head is the position
// that it has applied. Any of its methods may fail with ErrNoSource.
type Relay interface {
	Source

	// Origin is the origin's head as last heard of, which may be ahead of Head. Its time is
	// the origin's and never moves because somebody else asks: two relays that follow each
	// other look as old as they are.
	Origin() Head
}

// Counter is a Source that knows about how many records it has.
type Counter interface {
	Count(ctx context.Context) (uint64, error)
}
