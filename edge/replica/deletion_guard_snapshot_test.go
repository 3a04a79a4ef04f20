package replica_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// deleteAtOnce deletes the first 400 links in one transaction.
func (f *fleet) deleteAtOnce() {
	var gone []waypost.Record
	for i := range 400 {
		gone = append(gone, deleted(linkCode(i)))
	}
	f.Commit(gone...)
}

// trim removes the log, so that committed changes come by no stream any more. A new
// server replaces the one that may have them in memory.
func (f *fleet) trim(t *testing.T) {
	t.Helper()
	f.Trim()
	f.serve(t)
}

// refused waits until a repair or a snapshot is held back.
func (f *fleet) refused(t *testing.T, what replication.HoldKind) {
	t.Helper()
	require.Eventually(t, func() bool {
		st := f.follower.Status()
		h, ok := errors.AsType[*replication.Held](st.Err)
		return ok && h.What == what && st.Held != nil && st.Held.What == what
	}, 60*time.Second, time.Millisecond)
}

func TestDeletionGuard_HoldsDeletionsOfASnapshot(t *testing.T) {
	f := newFleet(t, guarded(vfs.NewMem()), 500)
	f.db.Shrink() // the parts of a snapshot are durable at once
	store := f.db.LiveStore()
	f.deleteAtOnce()
	f.trim(t)
	f.follow(t)
	f.refused(t, replication.HoldEmptySnapshot)
	require.Equal(t, "https://example.com/100", f.target(t, linkCode(100)))
	require.Equal(t, store, f.db.LiveStore())

	f.stop()
	var back []waypost.Record
	for i := range 400 {
		back = append(back, replicationtest.Link(linkCode(i), "https://example.com/back"))
	}
	f.Commit(back...)
	f.follow(t)
	f.settle(t) // corrected at the source, it needs no operator
	require.Nil(t, f.follower.Status().Held)
	require.Equal(t, "https://example.com/back", f.target(t, linkCode(100)))

	f.stop()
	f.deleteAtOnce()
	f.Commit(replicationtest.Link("later", "https://later.example/"))
	f.trim(t)
	f.follow(t)
	f.refused(t, replication.HoldEmptySnapshot)
	_, err := f.follower.Accept(replication.HoldEmptySnapshot)
	require.NoError(t, err)
	f.settle(t)
	require.Empty(t, f.target(t, linkCode(100)))
	require.Equal(t, "https://later.example/", f.target(t, "later"))

	f.Commit(back...)
	f.settle(t)
	f.stop()
	f.deleteAtOnce()
	f.trim(t)
	f.follow(t)
	f.refused(t, replication.HoldEmptySnapshot) // the acceptance was for one snapshot
	require.Equal(t, "https://example.com/back", f.target(t, linkCode(100)))
}

func TestDeletionGuard_HoldsDeletionsOfASnapshotThoughTheLiveStoreCannotBeRead(t *testing.T) {
	d := &unreadable{}
	f := newFleet(t, guarded(errorfs.Wrap(vfs.NewMem(), d)), 500)
	require.NoError(t, f.db.Flush())
	d.store = f.db.LiveStore()
	f.deleteAtOnce()
	f.trim(t)
	d.fails.Store(true)
	defer d.fails.Store(false)
	f.follow(t)
	f.refused(t, replication.HoldEmptySnapshot)
	require.Positive(t, d.reads.Load())
	require.Equal(t, "https://example.com/100", f.target(t, linkCode(100)))
}

// unreadable makes the tables of a store fail all reads.
type unreadable struct {
	fails atomic.Bool
	store string
	reads atomic.Int32
}

func (d *unreadable) String() string { return "unreadable" }

func (d *unreadable) MaybeError(op errorfs.Op) error {
	if d.fails.Load() && op.Kind == errorfs.OpFileReadAt && strings.Contains(op.Path, d.store) && strings.HasSuffix(op.Path, ".sst") {
		d.reads.Add(1)
		return syscall.EIO
	}
	return nil
}

func TestDeletionGuard_JudgesAResumedSnapshotAsAWhole(t *testing.T) {
	f := newFleet(t, guarded(vfs.NewMem()), 500)
	f.db.Shrink()
	f.Commit(replicationtest.Link("later", "https://later.example/"))
	f.trim(t)
	k := taking{s: f.Source, db: f.db}
	k.between = func(next int) {
		if next == waypost.Slots/2 {
			require.NoError(t, k.restore.Suspend())
		}
	}
	require.Error(t, k.run(t))
	f.requests()
	f.follow(t)
	f.settle(t)
	require.Nil(t, f.follower.Status().Held)
	require.Contains(t, f.requests(), replication.PathSnapshot+"?first=2048")
}

func TestDeletionGuard_HoldsDeletionsDuringARepair(t *testing.T) {
	f := newFleet(t, guarded(vfs.NewMem()), 500)
	f.follow(t)
	f.settle(t)
	f.deleteAtOnce()
	f.held(t, replication.HoldMassDelete)
	at := f.db.Position()
	f.stop() // meanwhile a record is damaged, which the stream finds
	f.db.Suspect(errors.New("damaged"))
	f.requests()
	f.follow(t)
	f.refused(t, replication.HoldMassDelete)
	require.True(t, slices.ContainsFunc(f.requests(), func(s string) bool { return strings.HasPrefix(s, replication.PathSums) }))
	require.Equal(t, at, f.db.Position())
	require.False(t, f.db.Repairing())
	require.Equal(t, "https://example.com/100", f.target(t, linkCode(100)))

	_, err := f.follower.Accept(replication.HoldMassDelete)
	require.NoError(t, err)
	f.settle(t)
	require.Nil(t, f.follower.Status().Held)
	require.Empty(t, f.target(t, linkCode(100)))
}

func TestDeletionGuard_JudgesARepairBeforeItWrites(t *testing.T) {
	f := newFleet(t, guarded(vfs.NewMem()), 500)
	f.follow(t)
	f.settle(t)
	store := f.db.LiveStore()
	restore := f.Backup()
	for i := range 300 {
		f.Commit(replicationtest.Link(linkCode(i), "https://lost.example/"))
	}
	f.settle(t)
	restore()
	f.Commit(replicationtest.Link("newone", "https://new.example/"))
	f.settle(t) // many differ, and all redirect
	require.Nil(t, f.follower.Status().Held)
	require.Equal(t, 1, f.follower.Status().Repairs)

	restore = f.Backup()
	f.Commit(replicationtest.Link("lost", "https://lost.example/"))
	f.settle(t)
	at := f.db.Position()
	f.stop() // both come at once
	restore()
	f.deleteAtOnce()
	f.follow(t)
	f.refused(t, replication.HoldEmptySnapshot)
	require.Equal(t, at, f.db.Position(), "nothing is changed")
	require.False(t, f.db.Repairing())
	require.Equal(t, "https://example.com/100", f.target(t, linkCode(100)))
	_, err := f.follower.Accept("")
	require.NoError(t, err)
	f.settle(t)
	require.Empty(t, f.target(t, linkCode(100)))
	require.Equal(t, 1, f.follower.Status().Repairs)
	require.Equal(t, store, f.db.LiveStore())
}
