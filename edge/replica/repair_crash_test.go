package replica_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// repairByHand makes the calls of a follower in a repair, so that a test can stop between
// them.
func (f *fleet) repairByHand(t *testing.T, db *replica.DB, step func()) {
	t.Helper()
	head, err := f.Head(t.Context())
	require.NoError(t, err)
	r, err := db.Repair(t.Context(), head.Cluster, head.Position.Epoch)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Abort()) }()
	var at [waypost.Slots]uint64
	for slot := range at {
		at[slot] = head.Position.Seq
	}
	local, err := r.Sums(t.Context())
	require.NoError(t, err)
	remote, _, err := f.Sums(t.Context(), 0, waypost.Slots-1)
	require.NoError(t, err)
	require.NoError(t, r.Follow(&at, head.Position))
	for slot := range remote {
		if local[slot] == remote[slot] {
			continue
		}
		var records [][]byte
		_, err := f.Snapshot(t.Context(), uint16(slot), uint16(slot), func(raw []byte) error {
			records = append(records, slices.Clone(raw))
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, r.Replace(t.Context(), uint16(slot), uint16(slot), records, head.Position.Seq))
		step()
	}
	require.NoError(t, r.Commit(t.Context(), head.Digest))
	step()
}

func TestRepair_BeginsAgainAfterACrash(t *testing.T) {
	for _, percent := range []int{0, 50} {
		fs := vfs.NewCrashableMem()
		f := newFleet(t, config(fs), 200)
		before := f.db.Position()
		restore := f.Backup()
		for i := range 8 {
			f.Commit(replicationtest.Link(linkCode(i), "https://lost.example/"), replicationtest.Link(fmt.Sprintf("lost%d", i), "https://lost.example/"))
		}
		apply(t, f.Source, f.db)
		require.NoError(t, f.db.Sync())
		restore()
		f.Commit(replicationtest.Link("newone", "https://new.example/"))
		var images []*vfs.MemFS
		f.repairByHand(t, f.db, func() { images = append(images, crash(fs, percent, uint64(len(images)))) })
		replicationtest.RequireEqual(t, f.Source, f.db)
		require.Greater(t, len(images), 10)
		head, err := f.Head(t.Context())
		require.NoError(t, err)
		for i, image := range images {
			db, err := replica.Open(config(image))
			require.NoError(t, err, "crash %d", i)
			if last := i == len(images)-1; last {
				require.Equal(t, head.Position, db.Position())
				require.Eventually(t, func() bool { return db.Synced() == head.Position }, 60*time.Second, time.Millisecond)
			} else {
				require.True(t, db.Repairing(), "crash %d", i)
				require.True(t, db.Synced().IsZero())
				require.Equal(t, waypost.Position{Epoch: head.Position.Epoch}, db.Position())
				require.NotEqual(t, before, db.Position())
				require.ErrorIs(t, db.Apply(t.Context(), &replication.Batch{
					Epoch: head.Position.Epoch, Transactions: []replication.Transaction{{Seq: 1}},
				}), replication.ErrDiverged)
				f.repairByHand(t, db, func() {})
			}
			replicationtest.RequireEqual(t, f.Source, db)
			requireDigest(t, db)
			require.NoError(t, db.Close())
		}
	}
}
