// Package replication carries the changelog from a source to its followers: the
// encoding of records, the frames of the stream and of the snapshot, [Server] for the
// side that holds a changelog, and [Follower] for the side that wants a replica.
//
// It knows neither PostgreSQL nor Pebble: a [Source] and a [Sink] are interfaces, and
// DESIGN.md describes the protocol.
package replication

import (
	"errors"

	"waypost"
)

// Cluster identifies one installation; a node of one never follows another.
type Cluster [16]byte

// Head is a source's newest position with the digest there.
type Head struct {
	Cluster  Cluster
	Position waypost.Position
	Digest   uint64 // XOR of the stamps of all records at Position
	At       int64  // origin's clock when this was true, Unix milliseconds

	// Signature is the control plane's, zero when the head is not signed. A node that
	// passes the head on passes on the signature too.
	Signature Signature
}

// Sum is the sum of the records of one slot, including tombstones.
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

	// Frame has the bytes of the batch as it came over the wire, and as it is passed on;
	// nil when it was made here. It may begin with transactions before those above, which
	// the reader has, and ends with the last of them. It is valid as long as the records
	// are.
	Frame     []byte
	Signature Signature // of what is in Frame; zero: it is not signed

	// AtHead says that there was nothing newer at the time of reading. If it is false, there
	// may have been.
	AtHead bool
}

// Last returns the position after the batch. The batch must not be empty.
func (b *Batch) Last() waypost.Position {
	t := &b.Transactions[len(b.Transactions)-1]
	return waypost.Position{Epoch: b.Epoch, Seq: t.Seq, Stamp: t.Stamp}
}

// Testimony is a position that a follower has seen, and that the control plane has
// signed. It shows a history that PostgreSQL may have forgotten.
type Testimony struct {
	Position waypost.Position
	Digest   uint64 // root digest there
	At       int64  // when that was the head, by the origin's clock, Unix milliseconds
}

var (
	// ErrTrimmed says that the log no longer holds the transactions after a position, so
	// that the follower needs a snapshot.
	ErrTrimmed = errors.New("the changelog no longer reaches back to this position")
	// ErrOtherHistory says that a position is outside of the source's history: another
	// epoch, another stamp at its sequence, or beyond the head.
	ErrOtherHistory = errors.New("this position is of another history")
	// ErrDiverged says that a replica differs from its source: a gap in the sequence,
	// another digest, or a record that differs from the one written. The follower repairs
	// the replica, or takes a snapshot.
	ErrDiverged = errors.New("the replica differs from its source")
	// ErrBehind says that a source that follows another one has not reached a position
	// yet, so that it cannot say whether the position belongs to its history.
	ErrBehind = errors.New("the source has not come to this position yet")
	// ErrNoSource says that a replica cannot be a source at present, because it is being
	// repaired or replaced, or is known to differ from its own source.
	ErrNoSource = errors.New("this replica is no source at present")
)
