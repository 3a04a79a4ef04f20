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
	"waypost/replication/replicationtest"
)

// verify adds up all slots.
func (f *fleet) verify(t *testing.T) {
	t.Helper()
	for slot := range uint16(waypost.Slots) {
		require.NoError(t, f.db.VerifySlot(t.Context(), slot))
	}
}

// verifyLinks adds up the slots of the test's links.
func (f *fleet) verifyLinks(t *testing.T) {
	t.Helper()
	codes := []string{"another", "added"}
	for i := range 300 {
		codes = append(codes, linkCode(i))
	}
	for _, code := range codes {
		require.NoError(t, f.db.VerifySlot(t.Context(), waypost.Slot(waypost.KindLink, waypost.DefaultDomain, []byte(code))))
	}
}

func TestScrubber_FindsDamage(t *testing.T) {
	for name, spoil := range spoilt() {
		for _, rounds := range []int{0, 1} { // before the first round, or after one
			t.Run(fmt.Sprintf("%s after %d rounds", name, rounds), func(t *testing.T) {
				f := newFleet(t, config(vfs.NewMem()), 100)
				for range rounds {
					f.verify(t)
				}
				f.Commit(replicationtest.Link(linkCode(7), "https://example.com/7"), replicationtest.Link("another", "https://a.example/"))
				apply(t, f.Source, f.db)
				require.NoError(t, f.db.Degraded())
				store := f.db.LiveStore()
				require.NoError(t, spoil(f))
				if rounds == 0 {
					f.verify(t)
				} else { // damage within one slot is found at once
					f.verifyLinks(t)
				}
				require.Error(t, f.db.Degraded())
				f.follow(t)
				require.Eventually(t, func() bool { return f.follower.Status().Repairs == 1 }, 60*time.Second, time.Millisecond)
				f.settle(t)
				require.NoError(t, f.db.Degraded())
				require.Equal(t, "https://example.com/7", f.target(t, linkCode(7)))
				require.Equal(t, store, f.db.LiveStore())
				require.EqualValues(t, 1, f.follower.Status().Repaired)
				if rounds == 0 {
					f.verifyLinks(t)
				} else {
					f.verify(t)
				}
				require.NoError(t, f.db.Degraded())
			})
		}
	}
}

func TestScrubber_FindsNothingUnderWrites(t *testing.T) {
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
	f.verify(t) // the round is judged as a whole
	for range 5 {
		f.verifyLinks(t) // slots are compared with those of the first round; no other slot was written
	}
	close(stop)
	writing.Wait()
	require.NoError(t, f.db.Degraded())
}

func TestScrubber_RunsInTheBackground(t *testing.T) {
	cfg := config(vfs.NewMem())
	cfg.VerifyInterval = 200 * time.Millisecond
	f := newFleet(t, cfg, 100)
	f.follow(t)
	require.NoError(t, f.db.Remove(linkCode(7)))
	require.Eventually(t, func() bool { return f.follower.Status().Repairs > 0 }, 60*time.Second, time.Millisecond)
	f.settle(t)
}
