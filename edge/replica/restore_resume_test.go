package replica_test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// taking takes a snapshot like a follower, and resumes an earlier one.
type taking struct {
	s        *replicationtest.Source
	db       *replica.DB
	progress replication.Progress
	restore  replication.Restore
	between  func(next int) // called after each range
}

const takenRange = 512

func (k *taking) run(t *testing.T) error {
	t.Helper()
	head, err := k.s.Head(t.Context())
	require.NoError(t, err)
	if k.restore, err = k.db.Restore(t.Context(), head.Cluster); err != nil {
		return err
	}
	p := k.restore.Progress()
	k.progress = p
	if p.Next == 0 {
		p = replication.Progress{Lowest: head.Position, Highest: head.Position, Digest: head.Digest}
	}
	for p.Next < waypost.Slots {
		var records [][]byte
		at, err := k.s.Snapshot(t.Context(), uint16(p.Next), uint16(p.Next+takenRange-1), func(raw []byte) error {
			records = append(records, bytes.Clone(raw))
			return nil
		})
		require.NoError(t, err)
		if err := k.restore.Slots(t.Context(), records); err != nil {
			return err
		}
		p.Next, p.Highest, p.Digest = p.Next+takenRange, at.Position, at.Digest
		if err := k.restore.Keep(t.Context(), p); err != nil {
			return err
		}
		if k.between != nil && p.Next < waypost.Slots {
			k.between(p.Next)
		}
	}
	if err := k.restore.BeginTail(t.Context(), p.Lowest, p.Highest); err != nil {
		return err
	}
	for p.Lowest.Seq < p.Highest.Seq {
		b, err := k.s.Read(t.Context(), p.Lowest, 1) // a transaction at a time
		require.NoError(t, err)
		if err := k.restore.Apply(t.Context(), &b); err != nil {
			return err
		}
		p.Lowest, p.Digest = b.Last(), b.Transactions[len(b.Transactions)-1].Digest
	}
	return k.restore.Commit(t.Context(), p.Digest)
}

func TestRestore_ResumesSuspendedAndNotAborted(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 100)
	db.Shrink()
	begin := func(end func(replication.Restore) error) {
		k := taking{s: s, db: db}
		k.between = func(next int) {
			if next == 2*takenRange {
				require.NoError(t, k.restore.Slots(t.Context(), s.Rows())) // a range that never ends
				require.NoError(t, end(k.restore))
			}
		}
		require.ErrorContains(t, k.run(t), "ended")
	}
	begin(replication.Restore.Abort)
	begin(replication.Restore.Suspend)
	k := taking{s: s, db: db}
	require.NoError(t, k.run(t))
	require.Equal(t, 2*takenRange, k.progress.Next)
	replicationtest.RequireEqual(t, s, db)

	begin(replication.Restore.Suspend)
	r, err := db.Restore(t.Context(), replication.Cluster{9})
	require.NoError(t, err)
	require.Zero(t, r.Progress().Next, "another cluster's")
	require.NoError(t, r.Abort())
	k = taking{s: s, db: db}
	require.NoError(t, k.run(t))
	require.Zero(t, k.progress.Next)
}

// TestRestore_OfAnotherDigestLeavesTheReplica finds this defect: a snapshot takes the
// place of the replica although its digest is another one than the source has signed.
func TestRestore_OfAnotherDigestLeavesTheReplica(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 100)
	before := db.Position()
	s.Commit(replicationtest.Link("code0001", "https://changed.example/"))
	s.Lie()
	k := taking{s: s, db: db}
	require.ErrorIs(t, k.run(t), replication.ErrDiverged)
	require.Equal(t, before, db.Position())
	location, found := find(t, db, "code0001")
	require.True(t, found)
	require.Equal(t, "https://example.com/1", location)
}

func TestRestore_TakesARepeatedRangeOnce(t *testing.T) {
	db, s := filled(t, config(vfs.NewMem()), 100)
	for _, saved := range []bool{false, true} {
		if saved {
			db.Shrink()
		}
		k := taking{s: s, db: db}
		k.between = func(int) {
			require.NoError(t, k.restore.Slots(t.Context(), s.Rows())) // of a connection that is cut
			k.restore.Rewind()
		}
		require.NoError(t, k.run(t))
		replicationtest.RequireEqual(t, s, db)
	}
}

func TestRestore_BeginsAgainWithoutItsTables(t *testing.T) {
	fs := vfs.NewMem()
	db, s := filled(t, config(fs), 100)
	db.Shrink()
	k := taking{s: s, db: db}
	k.between = func(next int) {
		if next == 2*takenRange {
			require.NoError(t, k.restore.Suspend())
		}
	}
	require.Error(t, k.run(t))
	names, err := fs.List("/replica/restore-000002")
	require.NoError(t, err)
	require.Contains(t, names, "000001.sst")
	require.NoError(t, fs.Remove("/replica/restore-000002/000001.sst"))
	k = taking{s: s, db: db}
	require.NoError(t, k.run(t))
	require.Zero(t, k.progress.Next)
	replicationtest.RequireEqual(t, s, db)
}

func TestRestore_WorksWithoutHardLinks(t *testing.T) {
	d := &disk{err: syscall.EOPNOTSUPP, only: func(op errorfs.Op) bool { return op.Kind == errorfs.OpLink }}
	db, s := filled(t, config(errorfs.Wrap(vfs.NewMem(), d)), 50)
	d.broken.Store(true)
	require.NoError(t, (&taking{s: s, db: db}).run(t))
	replicationtest.RequireEqual(t, s, db)
}

func TestRestore_FailsAloneWhenLinkingFails(t *testing.T) {
	for name, only := range map[string]func(errorfs.Op) bool{
		"PROGRESS":     func(op errorfs.Op) bool { return strings.Contains(op.Path, "PROGRESS") },
		"the manifest": func(op errorfs.Op) bool { return strings.Contains(op.Path, "MANIFEST") },
		"the WAL":      isWAL,
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{err: syscall.ENOSPC, only: only}
			db, s := filled(t, config(errorfs.Wrap(vfs.NewMem(), d)), 50)
			db.Shrink()
			d.broken.Store(true)
			k := taking{s: s, db: db}
			err := k.run(t)
			require.Error(t, err)
			d.broken.Store(false)
			if k.restore != nil {
				require.NoError(t, k.restore.Abort())
			}
			_, found := find(t, db, "code0001")
			require.True(t, found, "the old store serves")
			require.NoError(t, db.Degraded())
			s.Commit(replicationtest.Link("more", "https://more.example/"))
			apply(t, s, db)
			require.NoError(t, (&taking{s: s, db: db}).run(t))
			replicationtest.RequireEqual(t, s, db)
		})
	}
}
