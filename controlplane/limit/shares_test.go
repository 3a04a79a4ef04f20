package limit

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestShares_OneKeyLeavesTheRestToOthers(t *testing.T) {
	s := NewShares[string](4, 3)
	for range 3 {
		require.True(t, s.TryTake("greedy", 1))
	}
	require.False(t, s.TryTake("greedy", 1))
	require.True(t, s.TryTake("other", 1))
	require.False(t, s.TryTake("third", 1), "the stock is used up")
	s.Return("greedy", 3)
	require.False(t, s.TryTake("third", 4))
	require.True(t, s.TryTake("third", 3))
	s.Return("third", 3)
	s.Return("other", 1)
	require.Empty(t, s.of)
	require.Zero(t, s.used)
}

func TestShares_WaitersOfOneKeyDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares[string](3, 2)
		require.True(t, s.Take(t.Context(), "greedy"))
		require.True(t, s.Take(t.Context(), "greedy"))
		served := make(chan string, 10)
		for range 3 {
			go func() { s.Take(t.Context(), "greedy"); served <- "greedy" }()
		}
		synctest.Wait()
		require.True(t, s.Take(t.Context(), "other"), "the third place is for others")
		go func() { s.Take(t.Context(), "third"); served <- "third" }()
		synctest.Wait()
		require.Empty(t, served)
		s.Return("other", 1)
		require.Equal(t, "third", <-served)
		for range 3 {
			s.Return("greedy", 1)
			require.Equal(t, "greedy", <-served)
		}
	})
}

func TestShares_AllThatWasReturnedIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares[string](4, 3)
		require.True(t, s.TryTake("a", 3))
		for range 4 {
			go s.Take(t.Context(), "a")
		}
		synctest.Wait()
		s.Return("a", 2)
		require.Equal(t, 3, s.of["a"])
		require.Len(t, s.waiting, 2)
		s.Return("a", 3)
		require.Equal(t, 2, s.of["a"])
		require.Empty(t, s.waiting)
	})
}

func TestShares_ForgetWhoStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares[string](1, 1)
		require.True(t, s.Take(t.Context(), "a"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() { done <- s.Take(ctx, "b") }()
		synctest.Wait()
		cancel()
		require.False(t, <-done)
		s.Return("a", 1)
		require.True(t, s.TryTake("c", 1), "nothing was granted to the one that left")
	})
}

func TestLines_ServeNetworksInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLines(1, 64)
		leave, ok := l.Enter(t.Context(), netip.MustParseAddr("192.0.2.1"))
		require.True(t, ok)
		served := make(chan string, 64)
		wait := func(from string) {
			go func() {
				leave, ok := l.Enter(t.Context(), netip.MustParseAddr(from))
				if ok {
					served <- from
					leave()
				}
			}()
			synctest.Wait()
		}
		for n := range 3 {
			for host := range 16 {
				wait(fmt.Sprintf("198.51.%d.%d", n, host))
			}
		}
		wait("203.0.113.1")
		leave()
		synctest.Wait()
		require.Len(t, served, 49)
		place := 0
		for from := <-served; from != "203.0.113.1"; from = <-served {
			place++
		}
		require.LessOrEqual(t, place, 3, "one of each other network at most goes first")
		require.Zero(t, l.running+l.waiting+len(l.lines)+len(l.next))
	})
}

func TestLines_TurnAwayTheLongestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLines(1, 4)
		leave, ok := l.Enter(t.Context(), netip.MustParseAddr("192.0.2.1"))
		require.True(t, ok)
		outcome := make(chan string, 64)
		wait := func(from string) {
			go func() {
				leave, ok := l.Enter(t.Context(), netip.MustParseAddr(from))
				if ok {
					defer leave()
				}
				outcome <- fmt.Sprint(from, " ", ok)
			}()
			synctest.Wait()
		}
		for i := range 6 {
			wait(fmt.Sprintf("198.51.100.%d", i))
		}
		require.Equal(t, "198.51.100.4 false", <-outcome)
		require.Equal(t, "198.51.100.5 false", <-outcome)
		wait("203.0.113.1")
		require.Equal(t, "198.51.100.3 false", <-outcome)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, ok = l.Enter(ctx, netip.MustParseAddr("203.0.113.2"))
		require.False(t, ok, "a caller that has left has no place")
		leave()
		synctest.Wait()
		var served []string
		for range len(outcome) {
			served = append(served, <-outcome)
		}
		require.Contains(t, served, "203.0.113.1 true")
		require.Zero(t, l.running+l.waiting+len(l.lines)+len(l.next))
	})
}
