package replicationtest

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
)

// Replica is a Sink that can read its records back.
type Replica interface {
	replication.Sink
	// Records visits every record held, and returns the position at which it was read.
	Records(ctx context.Context, visit func(record []byte) error) (waypost.Position, error)
}

// Take restores the sink from the source as a follower does.
func Take(t testing.TB, s *Source, sink replication.Sink) {
	t.Helper()
	r, head := BeginRestore(t, s, sink)
	require.NoError(t, r.BeginTail(t.Context(), head.Position, head.Position))
	require.NoError(t, r.Commit(t.Context(), head.Digest))
	require.NoError(t, r.Abort())
}

// BeginRestore begins a restore, and brings all slots as they are.
func BeginRestore(t testing.TB, s *Source, sink replication.Sink) (replication.Restore, replication.Head) {
	t.Helper()
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	r, err := sink.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	BringSlots(t, s, r, 0, waypost.Slots-1)
	return r, head
}

// BringSlots brings a range of slots as they are.
func BringSlots(t testing.TB, s *Source, r replication.Restore, first, last uint16) {
	t.Helper()
	_, err := s.Snapshot(t.Context(), first, last, func(raw []byte) error {
		return r.Slots(t.Context(), [][]byte{raw})
	})
	require.NoError(t, err)
}

// Next reads the batch after the sink's position.
func Next(t testing.TB, s *Source, sink replication.Sink) replication.Batch {
	t.Helper()
	return ReadAfter(t, s, sink.Position())
}

// ReadAfter reads the batch after a position.
func ReadAfter(t testing.TB, s *Source, p waypost.Position) replication.Batch {
	t.Helper()
	b, err := s.Read(t.Context(), p, 1000)
	require.NoError(t, err)
	return b
}

// RequireEqual compares the replica with the source, record by record, and the
// positions.
func RequireEqual(t testing.TB, s *Source, sink Replica) {
	t.Helper()
	at, err := s.Head(t.Context())
	require.NoError(t, err)
	got, p := RowsOf(t, sink)
	require.Equal(t, at.Position, p)
	require.Equal(t, at.Position, sink.Position())
	require.Equal(t, s.Rows(), got)
	require.NoError(t, sink.Heartbeat(at), "the digest")
}

// RowsOf returns the records of a replica in order, and their position.
func RowsOf(t testing.TB, sink Replica) ([][]byte, waypost.Position) {
	t.Helper()
	var all [][]byte
	p, err := sink.Records(t.Context(), func(raw []byte) error {
		all = append(all, slices.Clone(raw))
		return nil
	})
	require.NoError(t, err)
	slices.SortFunc(all, slices.Compare)
	return all, p
}

// Purge takes a link's row away in Commit.
func Purge(code string) waypost.Record {
	r := Link(code, "")
	r.State = waypost.Purged
	return r
}
