package semaphore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestKeyed_OneKeyLeavesTheRestToOthers(t *testing.T) {
	s := NewKeyed[string](4, 3)
	for range 3 {
		require.True(t, s.TryAcquire("greedy", 1))
	}
	require.False(t, s.TryAcquire("greedy", 1))
	require.True(t, s.TryAcquire("other", 1))
	require.False(t, s.TryAcquire("third", 1), "all permits are held")
	s.Release("greedy", 3)
	require.False(t, s.TryAcquire("third", 4))
	require.True(t, s.TryAcquire("third", 3))
	s.Release("third", 3)
	s.Release("other", 1)
	require.Empty(t, s.held)
	require.Zero(t, s.Held())
}

func TestKeyed_WaitersOfOneKeyDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewKeyed[string](3, 2)
		require.True(t, s.Acquire(t.Context(), "greedy"))
		require.True(t, s.Acquire(t.Context(), "greedy"))
		served := make(chan string, 10)
		for range 3 {
			go func() { s.Acquire(t.Context(), "greedy"); served <- "greedy" }()
		}
		synctest.Wait()
		require.True(t, s.Acquire(t.Context(), "other"), "the third permit is for others")
		go func() { s.Acquire(t.Context(), "third"); served <- "third" }()
		synctest.Wait()
		require.Empty(t, served)
		s.Release("other", 1)
		require.Equal(t, "third", <-served)
		for range 3 {
			s.Release("greedy", 1)
			require.Equal(t, "greedy", <-served)
		}
	})
}

func TestKeyed_ServesKeysInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewKeyed[string](1, 1)
		require.True(t, s.Acquire(t.Context(), "first"))
		served := make(chan string, 64)
		wait := func(key string) {
			go func() {
				if s.Acquire(t.Context(), key) {
					served <- key
					s.Release(key, 1)
				}
			}()
			synctest.Wait()
		}
		for n := range 3 {
			for range 16 {
				wait(fmt.Sprint("greedy ", n))
			}
		}
		wait("late")
		s.Release("first", 1)
		synctest.Wait()
		require.Len(t, served, 49)
		before := 0
		for key := <-served; key != "late"; key = <-served {
			before++
		}
		require.LessOrEqual(t, before, 3, "one waiter of each other key goes first")
		require.Zero(t, s.Held()+len(s.waiting))
	})
}

// A key that has always waited has its turns also when another one comes with many.
func TestKeyed_SteadyWaitersKeepTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewKeyed[string](1, 1)
		held := "first"
		require.True(t, s.Acquire(t.Context(), held))
		served := make(chan string)
		wait := func(key string) {
			go func() { s.Acquire(t.Context(), key); served <- key }()
			synctest.Wait()
		}
		next := func() string { s.Release(held, 1); held = <-served; return held }
		for range 50 {
			wait("steady")
			wait("steady")
			next()
			next()
		}
		wait("steady")
		wait("steady")
		for range 10 {
			wait("newcomer")
		}
		require.ElementsMatch(t, []string{"steady", "newcomer"}, []string{next(), next()})
		require.ElementsMatch(t, []string{"steady", "newcomer"}, []string{next(), next()})
		for range 8 {
			require.Equal(t, "newcomer", next())
		}
	})
}

func TestKeyed_GrantsAllThatWasReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewKeyed[string](4, 3)
		require.True(t, s.TryAcquire("a", 3))
		for range 4 {
			go s.Acquire(t.Context(), "a")
		}
		synctest.Wait()
		s.Release("a", 2)
		require.Equal(t, 3, s.held["a"])
		require.Len(t, s.waiting, 2)
		s.Release("a", 3)
		require.Equal(t, 2, s.held["a"])
		require.Empty(t, s.waiting)
	})
}

func TestKeyed_ForgetsWaiterThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewKeyed[string](1, 1)
		require.True(t, s.Acquire(t.Context(), "a"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() { done <- s.Acquire(ctx, "b") }()
		synctest.Wait()
		cancel()
		require.False(t, <-done)
		s.Release("a", 1)
		require.True(t, s.TryAcquire("c", 1), "nothing was granted to the waiter that left")
	})
}
