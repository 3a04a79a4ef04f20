package replica_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// held waits until the replica holds a change back.
func (f *fleet) held(t *testing.T, what replication.HoldKind) {
	t.Helper()
	require.Eventually(t, func() bool {
		h := f.follower.Status().Held
		return h != nil && h.What == what
	}, 60*time.Second, time.Millisecond)
}

func (f *fleet) delete(from, to int) {
	for i := from; i < to; i++ {
		f.Commit(deleted(linkCode(i)))
	}
}

// guarded configures a replica that holds back deletions of a tenth of its records, and
// never of ten.
func guarded(fs vfs.FS) replica.Config {
	cfg := config(fs)
	cfg.DeletionGuard = replica.DeletionGuard{Share: 0.1, Least: 10}
	return cfg
}

func TestDeletionGuard_HoldsMassDeletions(t *testing.T) {
	f := newFleet(t, guarded(vfs.NewMem()), 500)
	f.follow(t)
	f.settle(t)
	f.delete(0, 40)
	f.settle(t)
	require.Nil(t, f.follower.Status().Held, "that many are normal")
	_, err := f.follower.Accept("")
	require.Error(t, err)

	f.delete(40, 200)
	f.Commit(replicationtest.Link("later", "https://later.example/"))
	f.held(t, replication.HoldMassDelete)
	at := f.db.Position()
	require.Equal(t, "https://example.com/100", f.target(t, linkCode(100)), "it serves what it has")
	require.Empty(t, f.target(t, "later"))
	require.NoError(t, f.db.Degraded())

	f.stop() // a restart allows no more
	f.follow(t)
	f.held(t, replication.HoldMassDelete)
	require.Equal(t, at, f.db.Position())

	_, err = f.follower.Accept(replication.HoldEmptySnapshot)
	require.Error(t, err, "another kind is held")
	head, err := f.Head(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return f.follower.Status().Head.Position == head.Position }, 60*time.Second, time.Millisecond)
	what, err := f.follower.Accept("")
	require.NoError(t, err)
	require.Equal(t, replication.HoldMassDelete, what)
	f.settle(t)
	require.Nil(t, f.follower.Status().Held)
	require.Empty(t, f.target(t, linkCode(100)))
	require.Equal(t, "https://later.example/", f.target(t, "later"))

	f.delete(200, 280) // later ones are counted from zero
	f.held(t, replication.HoldMassDelete)
}

func TestDeletionGuard_TallySurvivesAPowerCut(t *testing.T) {
	fs := vfs.NewCrashableMem()
	f := newFleet(t, guarded(fs), 500)
	f.follow(t)
	f.delete(0, 40)
	f.settle(t)
	f.stop()
	f.db = open(t, guarded(fs.CrashClone(vfs.CrashCloneCfg{})))
	f.delete(40, 60)
	f.follow(t)
	f.held(t, replication.HoldMassDelete)
}

func TestDeletionGuard_IgnoresExpiryAndTakedowns(t *testing.T) {
	f := newFleet(t, guarded(vfs.NewMem()), 500)
	f.follow(t)
	past := time.Now().Add(-time.Hour).UnixMilli()
	for i := range 400 {
		r := replicationtest.Link(linkCode(i), "https://example.com/")
		r.ExpiresAt = past
		f.Commit(r)
	}
	for i := range 400 { // as the reaper does
		r := deleted(linkCode(i))
		r.ExpiresAt = past
		f.Commit(r)
	}
	for i := range 400 {
		f.Commit(replicationtest.Purge(linkCode(i)))
	}
	for i := 400; i < 500; i++ { // takedowns do not wait
		r := replicationtest.Link(linkCode(i), "https://example.com/")
		r.State = waypost.Disabled
		f.Commit(r)
	}
	f.settle(t)
	require.Nil(t, f.follower.Status().Held)
}

func TestDeletionGuard_HoldsANearlyEmptySnapshot(t *testing.T) {
	f := newFleet(t, guarded(vfs.NewMem()), 500)
	f.follow(t)
	f.settle(t)
	store := f.db.LiveStore()
	f.Empty()
	f.held(t, replication.HoldEmptySnapshot)
	require.Equal(t, "https://example.com/100", f.target(t, linkCode(100)))
	require.Equal(t, store, f.db.LiveStore())
	_, err := f.follower.Accept(replication.HoldEmptySnapshot)
	require.NoError(t, err)
	f.settle(t)
	require.Empty(t, f.target(t, linkCode(100)))
	require.Nil(t, f.follower.Status().Held)
}

func TestDB_HoldsAnUnknownRecordAndServesTheRest(t *testing.T) {
	f := newFleet(t, guarded(vfs.NewMem()), 100)
	f.follow(t)
	f.settle(t)
	restore := f.Backup()
	r := replicationtest.Link("newer", "https://newer.example/")
	f.CommitSpoilt(r, func(raw []byte) { raw[0] = 9 }) // of a later version
	f.held(t, replication.HoldRecord)
	require.Equal(t, "https://example.com/7", f.target(t, linkCode(7)))
	_, err := f.follower.Accept("") // which only tries again
	require.NoError(t, err)
	restore() // the source no longer sends it
	f.settle(t)
	require.Nil(t, f.follower.Status().Held)
}
