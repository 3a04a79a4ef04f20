package replica_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestThreadsOfARestoreTakeTurns(t *testing.T) {
	db := open(t, config(vfs.NewMem()))
	db.Shrink()
	db.StandAside()
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("a", "https://a.example/"), replicationtest.Link("b", "https://b.example/"))
	require.NoError(t, (&taking{s: s, db: db}).run(t))

	head, err := s.Head(t.Context())
	require.NoError(t, err)
	r, err := db.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	var records [][]byte
	at, err := s.Snapshot(t.Context(), 0, waypost.Slots-1, func(raw []byte) error {
		records = append(records, bytes.Clone(raw))
		return nil
	})
	require.NoError(t, err)
	waits := func(threads int, do func() error) {
		t.Helper()
		waiting, end := db.HoldTurns()
		done := make(chan error, 1)
		go func() { done <- do() }()
		require.Eventually(t, func() bool { return waiting() == threads }, time.Minute, time.Millisecond)
		end()
		require.NoError(t, <-done)
	}
	waits(1, func() error { return r.Slots(t.Context(), records) }) // who gathers
	waits(2, func() error {                                         // who makes a table, and who fills the lookup table
		p := replication.Progress{Next: waypost.Slots, Lowest: head.Position, Highest: at.Position, Digest: at.Digest}
		if err := r.Keep(t.Context(), p); err != nil {
			return err
		}
		return r.Begin(t.Context(), head.Position, at.Position)
	})
	require.NoError(t, r.Commit(t.Context(), at.Digest))
	replicationtest.RequireEqual(t, s, db)
}
