package replica_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/replica"
	"waypost/replication/replicationtest"
)

func TestVerify_FindsDamage(t *testing.T) {
	for name, spoil := range spoilt() {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, config(vfs.NewMem()), 100)
			require.True(t, judged(t, f.db))
			f.Commit(replicationtest.Link(linkCode(7), "https://example.com/7"), replicationtest.Link("another", "https://a.example/"))
			apply(t, f.Source, f.db)
			v, err := f.db.Verify(t.Context())
			require.NoError(t, err)
			require.Equal(t, replica.Verification{Records: uint64(len(f.Rows())), Position: f.db.Position()}, v)

			require.NoError(t, spoil(f))
			v, err = f.db.Verify(t.Context())
			require.NoError(t, err)
			require.Error(t, v.Damage)
			require.ErrorIs(t, f.db.Degraded(), v.Damage)
			again, err := f.db.Verify(t.Context())
			require.NoError(t, err)
			require.Equal(t, v.Damage, again.Damage, "it waits for a repair")

			f.follow(t)
			require.Eventually(t, func() bool { return f.follower.Status().Repairs == 1 }, 60*time.Second, time.Millisecond)
			f.settle(t)
			require.Equal(t, "https://example.com/7", f.target(t, linkCode(7)))
			require.EqualValues(t, 1, f.follower.Status().Repaired)
			v, err = f.db.Verify(t.Context())
			require.NoError(t, err)
			require.NoError(t, v.Damage)
			require.NoError(t, f.db.Degraded())
		})
	}
}

func TestVerify_FindsNothingUnderWrites(t *testing.T) {
	f := newFleet(t, config(vfs.NewMem()), 200)
	stop, writing := make(chan struct{}), sync.WaitGroup{}
	writing.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for {
			select {
			case <-stop:
				return
			default:
			}
			r := replicationtest.Link(linkCode(rng.IntN(300)), fmt.Sprintf("https://%d.example/", rng.Uint32()))
			r.State = waypost.State(rng.IntN(4))
			f.Commit(r)
			b, err := f.Read(t.Context(), f.db.Position(), 1000)
			if err == nil {
				err = f.db.Apply(t.Context(), &b)
			}
			if err != nil {
				t.Errorf("apply: %v", err)
				return
			}
		}
	})
	for range 20 {
		v, err := f.db.Verify(t.Context())
		require.NoError(t, err)
		require.NoError(t, v.Damage)
	}
	close(stop)
	writing.Wait()
	require.NoError(t, f.db.Degraded())
}

func TestVerify_RunsInTheBackground(t *testing.T) {
	cfg := config(vfs.NewMem())
	cfg.VerifyInterval = 200 * time.Millisecond
	f := newFleet(t, cfg, 100)
	f.follow(t)
	require.NoError(t, f.db.Remove(linkCode(7)))
	require.Eventually(t, func() bool { return f.follower.Status().Repairs > 0 }, 60*time.Second, time.Millisecond)
	f.settle(t)
}

func TestVerify_SaysWhyThereIsNothingToVerify(t *testing.T) {
	db, err := replica.Open(config(vfs.NewMem()))
	require.NoError(t, err)
	_, err = db.Verify(t.Context())
	require.ErrorContains(t, err, "first snapshot")
	require.NoError(t, db.Close())
	_, err = db.Verify(t.Context())
	require.ErrorContains(t, err, "closed")
}
