package replica

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoMoreWorkAtOnceThanThereAreTurns(t *testing.T) {
	const threads, records = 5, 40 * turnRecords
	for _, free := range []int{1, 2, threads + 1} {
		turns := newTurns(free)
		var now, passed atomic.Int32
		var all sync.WaitGroup
		for range threads {
			all.Go(func() {
				turns.take()
				defer turns.end()
				for i := range records {
					if n := now.Add(1); int(n) > free {
						t.Errorf("%d at once", n)
					}
					passed.Add(1)
					now.Add(-1)
					turns.pass(i)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, threads*records, passed.Load())
		require.Equal(t, free, turns.free)
		require.Zero(t, turns.waiting)
	}
}

func TestATurnIsPassedOn(t *testing.T) {
	turns := newTurns(1)
	turns.take()
	order := make(chan string, 2)
	go func() {
		turns.take()
		order <- "who waited"
		turns.end()
	}()
	for waiting := 0; waiting == 0; {
		turns.mu.Lock()
		waiting = turns.waiting
		turns.mu.Unlock()
	}
	turns.pass(0)
	turns.pass(1)
	require.Empty(t, order, "it is not over yet")
	turns.pass(turnRecords)
	order <- "who passed it on"
	require.Equal(t, "who waited", <-order)
	turns.end()
}
