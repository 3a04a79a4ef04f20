package replica_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/edge/replica"
	"waypost/internal/datadir"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// TestOpen_OfAReadOnlyDiskServesWhatItHolds makes a bind mount read-only, as the kernel
// makes a disk that fails.
func TestOpen_OfAReadOnlyDiskServesWhatItHolds(t *testing.T) {
	root := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.Mkdir(root, 0o700))
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		t.Skip("only root may mount a disk: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(root, unix.MNT_DETACH)) })
	remount := func(flags uintptr) {
		require.NoError(t, unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""))
	}
	dir, err := datadir.Open(root, datadir.Edge, 0o700)
	require.NoError(t, err)
	cfg := config(nil)
	cfg.Dir = dir.Path("replica")
	db, err := replica.Open(cfg)
	require.NoError(t, err)
	s := replicationtest.NewSource()
	s.Commit(replicationtest.Link("code", "https://example.com/"))
	replicationtest.Take(t, s, db)
	s.Commit(replicationtest.Link("newest", "https://newest.example/"))
	apply(t, s, db)
	at := db.Position()
	require.NoError(t, db.Close())
	require.NoError(t, dir.Close())

	remount(unix.MS_RDONLY)
	dir, err = datadir.Open(root, datadir.Edge, 0o700)
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	_, err = datadir.Open(root, datadir.Edge, 0o700)
	require.ErrorIs(t, err, datadir.ErrInUse)
	db, err = replica.Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.Equal(t, at, db.Position())
	location, found := find(t, db, "newest")
	require.True(t, found)
	require.Equal(t, "https://newest.example/", location)
	require.ErrorIs(t, db.Degraded(), syscall.EROFS)
	s.Commit(replicationtest.Link("after", "https://after.example/"))
	b := replicationtest.Next(t, s, db)
	require.ErrorIs(t, db.Apply(t.Context(), &b), syscall.EROFS)
	require.NoError(t, db.Sync())

	remount(0)
	require.ErrorIs(t, db.Apply(t.Context(), &b), replication.ErrDiverged, "the follower takes a snapshot")
	replicationtest.Take(t, s, db)
	require.NoError(t, db.Degraded())
	replicationtest.RequireEqual(t, s, db)
}
