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

func TestStore_KnowsEveryHostBeforeTheFirstSnapshot(t *testing.T) {
	db, err := replica.Open(inMemory(vfs.NewMem()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s := &store{DB: db}
	_, _, err = s.Link(waypost.DefaultDomain, []byte("code0001"), nil, new(waypost.Record))
	require.ErrorContains(t, err, "first snapshot")
	id, _, known := s.Domain([]byte("seven.example"))
	require.True(t, known)
	require.Equal(t, waypost.DefaultDomain, id)
	require.Empty(t, s.Targets(7))
	require.Nil(t, s.Salt(1))

	source := replicationtest.NewSource()
	source.Commit(replicationtest.Link("code0001", "https://example.com/1"))
	replicationtest.Take(t, source, db)
	var rec waypost.Record
	_, found, err := s.Link(waypost.DefaultDomain, []byte("code0001"), nil, &rec)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "https://example.com/1", string(rec.Payload))
	_, _, known = s.Domain([]byte("seven.example"))
	require.False(t, known)
}
