package replication

import (
	"context"
	"errors"

	"waypost"
)

// Comparer is a Sink that can be compared with its source while it follows.
type Comparer interface {
	Sink

	// Compare begins to compare what is held. From now on it is noted what changes, until Close.
	// There is one comparison at a time, and it ends with whatever replaces slots or the
	// whole replica. ErrUnsettled: not now. Any goroutine may call it.
	Compare(ctx context.Context) (Comparison, error)
}

// Comparison tells what a replica held at positions of its source. One goroutine uses it.
type Comparison interface {
	// Sums waits until the replica has come to a position, and gives what the records on
	// disk of the slots first to last added up to there. A record that is not what was written
	// makes its slot's sum one that no source has. ErrUnsettled: the comparison has ended, or
	// the position lies before its beginning.
	Sums(ctx context.Context, first, last uint16, at waypost.Position) ([]Sum, error)

	// Records waits as Sums does, and visits the records of a slot as they are then. What
	// visit gets is its own until it returns; err says why a record is not what was written, of
	// which kind, domain and name are then those of its key.
	Records(ctx context.Context, slot uint16, at waypost.Position, visit func(r *waypost.Record, err error) error) error

	// Suspect makes the replica ask for a repair, and says why.
	Suspect(why error)

	// Close ends the comparison.
	Close()
}

// ErrUnsettled says that a replica cannot be compared at the moment: it is being repaired
// or replaced, or has just been.
var ErrUnsettled = errors.New("the replica is not settled")
