// Package replication carries the changelog from a source to its followers: the
// encoding of records, the frames of the stream and of the snapshot, Serve for
// the side that holds a changelog, and Follow for the side that wants a replica.
//
// It knows neither PostgreSQL nor Pebble: a Source and a Sink are interfaces,
// and the protocol is described in DESIGN.md beside this file.
package replication

import (
	"context"
	"errors"

	"waypost"
)

// Cluster identifies one installation for ever; a node of one never follows
// another.
type Cluster [16]byte

// Head is a source's newest position with the digest there.
type Head struct {
	Cluster  Cluster
	Position waypost.Position
	Digest   uint64 // XOR of the stamps of all records at Position
	At       int64  // origin's clock when this was true, Unix milliseconds

	// Signature is the control plane's, zero when there is none. What passes a head on
	// passes it on with it.
	Signature Signature
}

// Sum is what the records of one slot add up to, tombstones included.
type Sum struct {
	Digest  uint64 // XOR of the stamps
	Records uint64 // how many there are
}

// Transaction is one committed transaction of the changelog. It may be empty.
type Transaction struct {
	Seq     uint64
	Stamp   uint64
	Digest  uint64   // root digest after it
	At      int64    // commit time by the origin's clock, Unix milliseconds
	Records [][]byte // as AppendRecord encodes them; state Purged takes a record away
}

// Batch is a run of transactions without a gap, in order, of one epoch.
type Batch struct {
	Epoch        waypost.Epoch
	Transactions []Transaction

	// Frame is how the batch came over the wire, to the byte, and how it is passed on: nil
	// when it was made here. It may begin with transactions before those above, which the
	// reader has, and ends with the last of them. It is the batch's own as long as the
	// records are.
	Frame     []byte
	Signature Signature // of what is in Frame; zero: it is not signed
}

// Last gives the position after the batch. The batch must not be empty.
func (b *Batch) Last() waypost.Position {
	t := &b.Transactions[len(b.Transactions)-1]
	return waypost.Position{Epoch: b.Epoch, Seq: t.Seq, Stamp: t.Stamp}
}

var (
	// ErrTrimmed says that the log no longer holds what follows a position: the
	// follower needs a snapshot.
	ErrTrimmed = errors.New("the changelog no longer reaches back to this position")
	// ErrOtherHistory says that a position is not of the source's history: another
	// epoch, another stamp at its sequence, or beyond the head.
	ErrOtherHistory = errors.New("this position is of another history")
	// ErrDiverged says that a replica is not what the source says it should be: a
	// gap in the sequence, another digest, or a record that is not what was written. The
	// follower repairs it, or takes a snapshot.
	ErrDiverged = errors.New("the replica differs from its source")
	// ErrBehind says that a source which follows another one has not come to a position yet:
	// whether it is of its history remains to be seen.
	ErrBehind = errors.New("the source has not come to this position yet")
	// ErrNoSource says that what is held is not fit to be passed on at present: it is being
	// repaired or replaced, or known to differ from its own source.
	ErrNoSource = errors.New("this replica is no source at present")
)

// Source is a changelog that followers can read. All methods may be called by
// many goroutines at once.
type Source interface {
	// Head gives the newest committed position.
	Head(ctx context.Context) (Head, error)

	// Read gives the transactions that follow after, at least one and at most
	// about maxRecords records (always whole transactions, and a batch with a Frame is not
	// cut); an empty batch when after is the head. It fails with ErrTrimmed, ErrOtherHistory or
	// ErrBehind as above; any other error may pass by itself and is worth another try.
	Read(ctx context.Context, after waypost.Position, maxRecords int) (Batch, error)

	// Snapshot reads the slots first to last (inclusive) as they stand at one
	// position, and gives that position. Records come in no particular order; the bytes that
	// visit gets are its own only until it returns. An error of visit ends the
	// reading and is returned.
	Snapshot(ctx context.Context, first, last uint16, visit func(record []byte) error) (Head, error)

	// Sums gives what the records of each of the slots first to last (inclusive) add up
	// to, as they stand at one position, and gives that position.
	Sums(ctx context.Context, first, last uint16) ([]Sum, Head, error)

	// SnapshotWidth is how many slots a reader should ask for at once, a power of
	// two, chosen so that one reading stays short.
	SnapshotWidth(ctx context.Context) (int, error)

	// Changed gives a channel that is closed at the next hint that the head moved.
	// It is a hint only: followers poll as well.
	Changed() <-chan struct{}
}

// Relay is a Source that has its changelog from another one. Its Head is how far it has
// come. Any of its methods may fail with ErrNoSource.
type Relay interface {
	Source

	// Origin is the origin's head as last heard of, which may be ahead of Head. Its time is
	// the origin's and never moves because somebody else asks: two relays that follow each
	// other look as old as they are.
	Origin() Head
}

// ErrNoRoom says that the disk is too full for now. What was taken of a snapshot is kept for when there is room.
var ErrNoRoom = errors.New("the disk is almost full")

// Sink is a replica that a follower keeps. Its methods are called by one goroutine.
type Sink interface {
	// Cluster is that of the data held, and false when nothing is held yet.
	Cluster() (Cluster, bool)

	// Position is what was last applied, zero when nothing is held yet.
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

	// Restore begins a fresh replica beside the present one, which goes on serving
	// until Commit. There is one at a time.
	Restore(ctx context.Context, c Cluster) (Restore, error)
}

// Progress is how far a restore has come.
type Progress struct {
	Next            int              // the first slot that is not held; waypost.Slots: all are
	Lowest, Highest waypost.Position // what was read is of these positions; the tail goes on from Lowest
	Digest          uint64           // at Highest
}

// Fitter is a Restore that knows how much it takes.
type Fitter interface {
	Restore
	// Fits refuses a snapshot of about so many records, 0: not known, before it begins, when
	// there is no room for it.
	Fits(records uint64) error
}

// Retaker is a Restore of which slots can be taken again, when the log no longer reaches back to where
// they were read.
type Retaker interface {
	Restore
	// Again forgets the slots before one, and those behind it that it cannot keep without them;
	// before Begin. It gives the slot before which all are gone: they come in order, from the first on.
	Again(ctx context.Context, before int) (int, error)
}

// Counter is a Source that knows about how many records it has.
type Counter interface {
	Count(ctx context.Context) (uint64, error)
}

// Restore fills a fresh replica: first every slot, then the tail of the changelog
// from the lowest position at which a slot was read.
type Restore interface {
	// Progress is where to go on, when an earlier restore was suspended or its process was
	// killed, and zero when there was none. After Keep it is of no more use.
	Progress() Progress

	// Slots takes records read at one position. Of those of one key, the newest counts.
	Slots(ctx context.Context, records [][]byte) error

	// Keep says that all slots before p.Next were taken. They are made durable in the
	// background, and what goes wrong there is told by a later call.
	Keep(ctx context.Context, p Progress) error

	// Rewind forgets what was taken since Keep, because it comes again.
	Rewind()

	// Begin says that all slots are there and that the tail comes next, from the
	// lowest position on. From highest on the digest must hold.
	Begin(ctx context.Context, lowest, highest waypost.Position) error

	// Apply takes the tail like Sink.Apply, but judges the digest only once the
	// highest position is reached.
	Apply(ctx context.Context, b *Batch) error

	// Commit makes the fresh replica durable and swaps it in, when the tail has
	// reached the highest position and its digest equals digest; ErrDiverged otherwise. With
	// [Held] it may be suspended, and accepted later.
	Commit(ctx context.Context, digest uint64) error

	// Suspend ends the restore and keeps what is durable, where the next one goes on.
	// It does nothing after Commit or Abort.
	Suspend() error

	// Abort throws the fresh replica away. It does nothing after Commit or Suspend.
	Abort() error
}
