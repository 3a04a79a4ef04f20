package node

import (
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

func inMemory(fs vfs.FS) replica.Config {
	return replica.Config{
		Dir: "/replica", FS: fs, CacheBytes: 1 << 20, VerifyInterval: -1,
		DeletionGuard: replica.DeletionGuard{Share: -1}, Logger: slog.New(slog.DiscardHandler),
	}
}

func TestHandle_AnswersFromThePresentReplica(t *testing.T) {
	var h handle
	requireDefault := func() {
		t.Helper()
		id, known := h.Domain([]byte("seven.example"))
		require.True(t, known)
		require.Equal(t, waypost.DefaultDomain, id)
	}
	_, _, _, err := h.Link(waypost.DefaultDomain, []byte("code0001"), nil)
	require.ErrorIs(t, err, errNoReplica)
	requireDefault()
	require.Empty(t, h.Targets(7))
	require.Nil(t, h.Salt(1))

	db, err := replica.Open(inMemory(vfs.NewMem()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	h.set(db, nil)
	_, _, _, err = h.Link(waypost.DefaultDomain, []byte("code0001"), nil)
	require.ErrorContains(t, err, "first snapshot")
	requireDefault()

	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("code0001", "https://example.com/1"))
	replicationtest.Take(t, s, db)
	rec, _, found, err := h.Link(waypost.DefaultDomain, []byte("code0001"), nil)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "https://example.com/1", string(rec.Payload))
	_, known := h.Domain([]byte("seven.example"))
	require.False(t, known)
}

// TestHandle_ReadersSeeNoClosedReplica swaps the replicas as a takeover that fails does.
func TestHandle_ReadersSeeNoClosedReplica(t *testing.T) {
	var h handle
	fs := vfs.NewMem()
	open := func() *replica.DB {
		t.Helper()
		db, err := replica.Open(inMemory(fs))
		require.NoError(t, err)
		return db
	}
	db := open()
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("code0001", "https://example.com/1"))
	replicationtest.Take(t, s, db)
	h.set(db, nil)
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(failed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, _, found, err := h.Link(waypost.DefaultDomain, []byte("code0001"), nil)
			if err == nil && !found {
				err = waypost.Errorf(waypost.ENotFound, "the link is gone")
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	for range 5 {
		live := h.live()
		frozen, err := live.Freeze("/frozen")
		require.NoError(t, err)
		h.set(nil, frozen)
		require.NoError(t, live.Close())
		h.set(open(), nil)
		require.NoError(t, frozen.Close())
		require.NoError(t, fs.RemoveAll("/frozen"))
	}
	close(stop)
	require.NoError(t, <-failed)
	require.NoError(t, h.live().Close())
}
