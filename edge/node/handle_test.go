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
		id, _, known := h.Domain([]byte("seven.example"))
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
	h.set(db)
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
	_, _, known := h.Domain([]byte("seven.example"))
	require.False(t, known)
}
