package replication

import (
	"context"
	"errors"

	"waypost"
)

// ErrNoRoom says that the disk is too full for now. The sink keeps the part of a snapshot
// that it has taken, and goes on once the disk has room.
var ErrNoRoom = errors.New("the disk is almost full")

// Sink is a replica that a follower keeps current. One goroutine calls its methods.
type Sink interface {
	// Cluster returns the cluster of the data held, and false when nothing is held yet.
	Cluster() (Cluster, bool)

	// Position returns the position that was last applied, zero when nothing is held yet.
	Position() waypost.Position

	// Apply makes a batch part of the replica, rows and position in one atomic
	// write, durable within the sink's sync interval (at once when it deletes or
	// disables). The batch must begin at the position's sequence + 1 in the same
	// epoch, and end in the digest it states; otherwise nothing is changed and the
	// error is ErrDiverged, or [Held], with which it may be accepted later.
	Apply(ctx context.Context, b *Batch) error

	// Heartbeat notes the origin's head and clock, for freshness. When the head is
	// the sink's own position, digests are compared: ErrDiverged.
	Heartbeat(h Head) error

	// Restore begins a fresh replica next to the present one, which goes on serving until
	// Commit. One restore runs at a time.
	Restore(ctx context.Context, c Cluster) (Restore, error)

	// Accept lets a change pass that was held back with [Held]: mass deletions up to a
	// position, or the next snapshot or repair. Any goroutine may call it.
	Accept(what HoldKind, upTo waypost.Position)
}

// Progress describes the slots that a restore holds.
type Progress struct {
	Next            int              // the first slot that is not held; waypost.Slots: all are
	Lowest, Highest waypost.Position // what was read is of these positions; the tail goes on from Lowest
	Digest          uint64           // at Highest
}

// Restore fills a fresh replica: first every slot, then the tail of the changelog
// from the lowest position at which a slot was read.
type Restore interface {
	// Progress returns the progress of an earlier restore that was suspended or killed
	// with its process, and zero when the restore begins from nothing. It is out of date
	// after the first Keep.
	Progress() Progress

	// Fits refuses a snapshot before it begins when there is no room for about that many
	// records; 0: their number is not known.
	Fits(records uint64) error

	// Slots takes records read at one position. Of several records with one key, the
	// newest counts.
	Slots(ctx context.Context, records [][]byte) error

	// Keep says that all slots before p.Next were taken. The sink makes them durable in
	// the background, and a later call returns the errors.
	Keep(ctx context.Context, p Progress) error

	// Rewind discards the records taken since Keep, because they come again.
	Rewind()

	// BeginTail says that all slots are there and that the tail comes next, from the
	// lowest position on. From highest on the digest must hold.
	BeginTail(ctx context.Context, lowest, highest waypost.Position) error

	// Apply takes the tail like Sink.Apply, but judges the digest only once the
	// highest position is reached.
	Apply(ctx context.Context, b *Batch) error

	// Commit makes the fresh replica durable and swaps it in, when the tail has
	// reached the highest position and its digest equals digest; ErrDiverged otherwise. With
	// [Held] it may be suspended, and accepted later.
	Commit(ctx context.Context, digest uint64) error

	// Suspend ends the restore and keeps its durable slots, after which the next restore
	// goes on. It does nothing after Commit or Abort.
	Suspend() error

	// Abort throws the fresh replica away. It does nothing after Commit or Suspend.
	Abort() error
}

// Repairer is a Sink that can replace its slots one by one while it serves.
type Repairer interface {
	Sink

	// Repairing reports that a repair has changed something and has not ended, also
	// after a restart. Position then has the epoch alone, and nothing but another repair
	// or a snapshot makes the replica whole.
	Repairing() bool

	// Repair begins a repair of the data held, towards the history of an epoch. One
	// repair runs at a time, and not during a restore. ErrDiverged: only a snapshot can
	// help.
	Repair(ctx context.Context, c Cluster, e waypost.Epoch) (Repair, error)
}

// Repair makes a replica equal to its source slot by slot. Between its first change after
// Sums and Commit, the replica's position does not count.
type Repair interface {
	// Apply takes transactions that follow on Position, without judging their digests.
	// In each slot it passes over transactions that the slot holds already, as Follow or
	// Replace have set.
	Apply(ctx context.Context, b *Batch) error

	// Sums reads every record and returns the sums of all slots, as they are now. A
	// damaged or misplaced record makes its slot's sum one that no source has.
	Sums(ctx context.Context) ([]Sum, error)

	// Follow sets at which sequence each slot was compared with the source, and the
	// position after which Apply goes on.
	Follow(at *[waypost.Slots]uint64, lowest waypost.Position) error

	// Judge reports whether slots may be replaced: nil, or [Held]. The new records of
	// these slots hold that many serving links.
	Judge(slots []uint16, serving uint64) error

	// Replace makes the slots first to last hold these records, which are all that the
	// source has of them at sequence at, and no others, whatever is newer. It is durable
	// when it returns.
	Replace(ctx context.Context, first, last uint16, records [][]byte, at uint64) error

	// Commit ends the repair, durably, at the position that Apply has reached. When the
	// replica's digest differs from digest, it changes nothing and the error is
	// ErrDiverged.
	Commit(ctx context.Context, digest uint64) error

	// Abort ends the repair as it is. It does nothing after Commit.
	Abort() error
}
