package clicks_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/edge/clicks"
)

// next to opens a journal next to one that is open, as a process does that takes over.
func beside(t *testing.T, j *clicks.Journal, cfg clicks.Config) *clicks.Journal {
	t.Helper()
	fd, err := unix.FcntlInt(j.Lock().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	cfg.Shared = os.NewFile(uintptr(fd), "lock")
	return open(t, cfg)
}

func TestSharedMode_TwoJournalsNextToEachOtherLoseNothingAndShipEachClickOnce(t *testing.T) {
	cp := newControlPlane(t)
	cfg := config(t.TempDir())
	first := open(t, cfg)
	record(t, first, "earlier", 3)
	require.NoError(t, first.Seal()) // leaves a batch that was not sent
	require.NoError(t, first.Close())

	old := open(t, cfg)
	record(t, old, "before", 5)
	next := beside(t, old, cfg)
	var recording sync.WaitGroup
	for _, j := range []*clicks.Journal{old, next} {
		recording.Go(func() { record(t, j, "meanwhile", 500) })
	}
	recording.Wait()
	require.NoError(t, old.Close())
	require.NoError(t, next.Adopt())
	record(t, next, "after", 7)
	shipAll(t, next, cp)
	require.Equal(t, map[string]uint64{"1/earlier": 3, "1/before": 5, "1/meanwhile": 1000, "1/after": 7}, cp.clicks)
	require.Zero(t, len(files(t, cfg.Dir, "segment-")))
}

func TestSharedMode_WhatAKilledPredecessorRecordedIsTakenOverOnce(t *testing.T) {
	cp := newControlPlane(t)
	cfg := config(t.TempDir())
	killed := open(t, cfg)
	record(t, killed, "killed", 20)
	next := beside(t, killed, cfg)
	record(t, next, "next", 2)
	record(t, killed, "killed", 1) // and is heard of no more
	own := files(t, cfg.Dir, "segment-00000002-")
	require.NotEmpty(t, own)
	require.NoError(t, next.Adopt())
	require.NoError(t, next.Adopt(), "a second time there is nothing new")
	require.Subset(t, files(t, cfg.Dir, "segment-00000002-"), own, "its own files are not taken over")
	shipAll(t, next, cp)
	require.Equal(t, map[string]uint64{"1/killed": 21, "1/next": 2}, cp.clicks)
}

func TestSharedMode_AfterATakeoverThatFailedNothingOfItIsLeft(t *testing.T) {
	cp := newControlPlane(t)
	cfg := config(t.TempDir())
	cfg.FlushInterval = time.Millisecond
	old := open(t, cfg)
	record(t, old, "mine", 4)
	own := len(files(t, cfg.Dir, "segment-"))
	killed := beside(t, old, cfg)
	record(t, killed, "killed", 1)
	require.Greater(t, len(files(t, cfg.Dir, "segment-")), own)
	require.NoError(t, killed.Close())
	require.NoError(t, old.Adopt())
	shipInBackground(t, old, cp.shipping())
	cp.await(t, "counted", func() bool { got, _ := cp.totals(); return got["1/killed"] == 1 && got["1/mine"] == 4 })
	record(t, old, "mine", 1)
	shipAll(t, old, cp)
	require.Equal(t, map[string]uint64{"1/killed": 1, "1/mine": 5}, cp.clicks)
	require.Empty(t, files(t, cfg.Dir, "segment-"))
}

func TestSharedMode_ForeignLockIsRefused(t *testing.T) {
	cfg, other := config(t.TempDir()), config(t.TempDir())
	old := open(t, cfg)
	fd, err := unix.FcntlInt(old.Lock().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	other.Shared = os.NewFile(uintptr(fd), "lock")
	_, err = clicks.Open(other)
	require.ErrorContains(t, err, "is not that of")
	_, err = clicks.Open(cfg)
	require.ErrorContains(t, err, "another process has it", "without a part in the lock")
}
