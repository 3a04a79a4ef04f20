package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
)

// slowStore commits anything in the time that a disk takes, and counts.
type slowStore struct {
	LinkStore
	commits, links int
}

const commitTime = 8 * time.Millisecond

func (s *slowStore) InsertLinks(_ context.Context, _ uint32, links []Insertion) ([]Placement, waypost.Position, error) {
	time.Sleep(commitTime)
	s.commits++
	s.links += len(links)
	placed := make([]Placement, len(links))
	for i := range placed {
		placed[i] = Placed
	}
	return placed, waypost.Position{Seq: uint64(s.commits)}, nil
}

// create lets callers create links one after the other, each pausing in between, and
// returns the time that they took.
func create(t *testing.T, store *slowStore, callers, each int, pause func(caller int) time.Duration) time.Duration {
	w := newWriter(store, &Minter{}, commitTimeout, slog.New(slog.DiscardHandler))
	defer w.close()
	start := time.Now()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range each {
				time.Sleep(pause(c))
				x := &pendingLink{link: &waypost.Link{Code: waypost.Code(fmt.Sprintf("c%d-%d", c, i)), Custom: true}}
				if _, err := w.insert(t.Context(), []*pendingLink{x}); err != nil || !x.added {
					t.Error(err, x.err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

func TestWriter_CallersWhoComeAgainAreCommittedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store slowStore
		create(t, &store, 64, 50, func(c int) time.Duration { return time.Duration(c) * 20 * time.Microsecond })
		require.Equal(t, 64*50, store.links)
		require.Less(t, store.commits, 60, "one a round, and not two")
	})
}

func TestWriter_LoneCallerWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store slowStore
		took := create(t, &store, 1, 50, func(int) time.Duration { return 0 })
		require.Equal(t, 50*commitTime, took)
		require.Equal(t, 50, store.commits)
	})
}

func TestWriter_CallersWhoDoNotComeAgainAreSoonWaitedForNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store slowStore
		// One of them is always back at once; the others come far apart.
		took := create(t, &store, 2, 1, func(int) time.Duration { return 0 })
		require.LessOrEqual(t, took, 3*commitTime)
		store = slowStore{}
		took = create(t, &store, 9, 100, func(c int) time.Duration { return time.Duration(c) * 41 * time.Millisecond })
		require.Equal(t, 900, store.links)
		least := 100 * (8*41*time.Millisecond + commitTime)
		require.Less(t, took, least+least/50, "the slowest caller has little of the others")
	})
}
