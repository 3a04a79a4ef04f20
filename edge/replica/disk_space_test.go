package replica_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestDiskSpace_ChangesWaitWhileTheDiskIsAlmostFull(t *testing.T) {
	reg := prometheus.NewRegistry()
	cfg := config(vfs.NewMem())
	cfg.MinFree, cfg.Metrics = replica.MinFree{Bytes: 1 << 30}, reg
	db, s := filled(t, cfg, 100)
	var free, total atomic.Int64
	total.Store(100 << 30)
	free.Store(2 << 30)
	db.SetSpace(&free, &total)
	s.Commit(replicationtest.Link("more", "https://more.example/"))
	apply(t, s, db)

	free.Store(1<<30 - 1)
	require.Eventually(t, func() bool { return db.Degraded() != nil }, 60*time.Second, time.Millisecond)
	require.ErrorIs(t, db.Degraded(), replica.ErrLowDisk)
	s.Commit(replicationtest.Link("waits", "https://waits.example/"))
	b := replicationtest.Next(t, s, db)
	err := db.Apply(t.Context(), &b)
	require.ErrorIs(t, err, replica.ErrLowDisk)
	require.NotErrorIs(t, err, replication.ErrDiverged, "a snapshot would not help")
	require.InDelta(t, 1, value(t, reg, "disk_low"), 0)
	location, found := find(t, db, "code0001")
	require.True(t, found)
	require.Equal(t, "https://example.com/1", location)
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	r, err := db.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	require.ErrorIs(t, r.Fits(1), replica.ErrLowDisk)
	require.NoError(t, r.Abort())

	free.Store(1<<30 + 1)
	time.Sleep(150 * time.Millisecond) // longer than a measurement is used
	require.ErrorIs(t, db.Degraded(), replica.ErrLowDisk, "it does not flutter")
	free.Store(2 << 30)
	require.Eventually(t, func() bool { return db.Degraded() == nil }, 60*time.Second, time.Millisecond)
	apply(t, s, db)
	replicationtest.RequireEqual(t, s, db)
}

func TestRestore_RefusesASnapshotThatDoesNotFit(t *testing.T) {
	cfg := config(vfs.NewMem())
	cfg.MinFree = replica.MinFree{Share: 0.1}
	db, s := filled(t, cfg, 100)
	var free, total atomic.Int64
	total.Store(10 << 30)
	free.Store(2 << 30)
	db.SetSpace(&free, &total)
	head, err := s.Head(t.Context())
	require.NoError(t, err)
	r, err := db.Restore(t.Context(), head.Cluster)
	require.NoError(t, err)
	require.NoError(t, r.Fits(0), "as many as it holds")
	require.NoError(t, r.Fits(10_000_000))
	err = r.Fits(20_000_000)
	require.ErrorIs(t, err, replica.ErrLowDisk)
	require.ErrorContains(t, err, "20000000 links needs about 1907 MiB")
	require.NoError(t, r.Abort())
	replicationtest.RequireEqual(t, s, db)
}
