package replica_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// onDisk configures a replica on the real file system.
func onDisk(dir string) replica.Config {
	return replica.Config{Dir: dir, CacheBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)}
}

func TestDB_FrozenAnswersWhileAnotherHasTheDirectory(t *testing.T) {
	root := t.TempDir()
	cfg := onDisk(filepath.Join(root, "replica"))
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("code0001", "https://example.com/1"))
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	replicationtest.Take(t, s, db)
	s.Commit(replicationtest.Link("code0002", "https://example.com/2"))
	apply(t, s, db) // is in the WAL only, and not synced

	frozen, err := db.Freeze(filepath.Join(root, "frozen"))
	require.NoError(t, err)
	require.NoError(t, db.Close())
	again := open(t, cfg)
	s.Commit(replicationtest.Link("code0003", "https://example.com/3"))
	apply(t, s, again)

	for code, want := range map[string]string{"code0001": "https://example.com/1", "code0002": "https://example.com/2"} {
		location, found := find(t, frozen, code)
		require.True(t, found, code)
		require.Equal(t, want, location)
	}
	_, found := find(t, frozen, "code0003")
	require.False(t, found, "it was made later")
	_, found = find(t, again, "code0003")
	require.True(t, found)
	cluster, holds := frozen.Cluster()
	want, _ := again.Cluster()
	require.True(t, holds)
	require.Equal(t, want, cluster)
	require.Equal(t, again.Position().Seq-1, frozen.Position().Seq)

	require.ErrorContains(t, frozen.Apply(t.Context(), &replication.Batch{}), "frozen")
	_, err = frozen.Restore(t.Context(), cluster)
	require.ErrorContains(t, err, "frozen")
	require.NoError(t, frozen.Close())
	_, _, _, err = frozen.Link(waypost.DefaultDomain, []byte("code0001"), nil)
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
}

func TestDB_FreezeNeedsAStore(t *testing.T) {
	root := t.TempDir()
	db := open(t, onDisk(filepath.Join(root, "replica")))
	_, err := db.Freeze(filepath.Join(root, "frozen"))
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	_, err = os.Stat(filepath.Join(root, "frozen"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
