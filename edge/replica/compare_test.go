package replica_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// compare compares the replica with its source within a generous time.
func (f *fleet) compare(t *testing.T, repair bool) replication.Verification {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	v, err := f.follower.Verify(ctx, repair)
	require.NoError(t, err)
	require.Equal(t, waypost.Slots, v.Slots)
	return v
}

func TestComparison_FindsAndRepairsDamage(t *testing.T) {
	for name, spoil := range spoilt() {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, config(vfs.NewMem()), 500)
			f.follow(t)
			f.settle(t)
			require.Zero(t, f.compare(t, true).Different)
			require.NoError(t, spoil(f))

			found := f.compare(t, false)
			require.Equal(t, 1, found.Different)
			require.Zero(t, found.Repaired)
			require.NoError(t, f.db.Degraded(), "a comparison changes nothing")
			require.Len(t, found.Differences, 1)
			d := found.Differences[0]
			switch name {
			case "a record removed":
				require.Equal(t, replication.Missing, d.What)
				require.Nil(t, d.Held)
			case "a record added":
				require.Equal(t, replication.Extra, d.What)
				require.Equal(t, "added", d.Name)
				require.Equal(t, "https://added.example/", string(d.Held.Payload))
			default:
				require.Equal(t, replication.Unreadable, d.What)
			}
			if d.What != replication.Extra {
				require.Equal(t, linkCode(7), d.Name)
				require.Equal(t, "https://example.com/7", string(d.Source.Payload))
			}

			repaired := f.compare(t, true)
			require.Equal(t, 1, repaired.Different)
			require.Equal(t, 1, repaired.Repaired)
			f.settle(t)
			require.Equal(t, 1, f.follower.Status().Repairs)
			require.Zero(t, f.compare(t, false).Different)
		})
	}
}

func TestComparison_FindsNoDifferenceUnderWrites(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 500)
	f.Commit(replicationtest.Link("steady", "https://example.com/steady"))
	f.follow(t)
	f.settle(t)
	ctx, stop := context.WithCancel(t.Context())
	writing := sync.WaitGroup{}
	defer writing.Wait()
	defer stop()
	writing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			records := make([]waypost.Record, 0, 50)
			for n := range 50 {
				records = append(records, replicationtest.Link(linkCode((i*50+n)%700), fmt.Sprintf("https://example.com/%d/%d", i, n)))
			}
			if i%7 == 0 {
				records = append(records, deleted(linkCode(i%500)), replicationtest.Purge(linkCode((i+1)%500)))
			}
			f.Commit(records...)
			for head, _ := f.Head(ctx); f.db.Position() != head.Position && ctx.Err() == nil; {
				runtime.Gosched() // no faster than the replica takes them
			}
		}
	})
	for range 5 {
		require.Zero(t, f.compare(t, false).Different)
	}
	require.NoError(t, f.db.Remove("steady"))
	found := f.compare(t, false)
	require.Equal(t, 1, found.Different, "the real difference is found")
	require.Equal(t, "steady", found.Differences[0].Name)
	stop()
	writing.Wait()
	require.Equal(t, 1, f.compare(t, true).Repaired)
	f.settle(t)
}

func TestComparison_ReportsAnEarlierPosition(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 100)
	f.follow(t)
	f.settle(t)
	c, err := f.db.Compare(t.Context())
	require.NoError(t, err)
	defer c.Close()
	want, head, err := f.Sums(t.Context(), 0, waypost.Slots-1)
	require.NoError(t, err)
	f.Commit(replicationtest.Link(linkCode(3), "https://changed.example/"), replicationtest.Link("added", "https://added.example/"),
		replicationtest.Purge(linkCode(4)))
	f.settle(t)
	got, err := c.Sums(t.Context(), 0, waypost.Slots-1, head.Position)
	require.NoError(t, err)
	require.Equal(t, want, got)
}
