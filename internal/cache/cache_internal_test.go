package cache

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCache_ClearsWhileAnAnswerIsUnderWay(t *testing.T) {
	var b Cache[string, int]
	now, asked := time.Unix(1_900_000_000, 0), 0
	say := func(value int, err error) func() (int, bool, error) {
		return func() (int, bool, error) { asked++; return value, value != 0, err }
	}
	check := func(at time.Duration, ask func() (int, bool, error), want int) {
		t.Helper()
		got, ok, err := b.Get("key", now.Add(at), ask)
		require.NoError(t, err)
		require.Equal(t, want != 0, ok)
		require.Equal(t, want, got)
	}
	check(0, func() (int, bool, error) {
		b.Clear() // another caller revokes the key meanwhile
		return 7, true, nil
	}, 7)
	check(0, say(8, nil), 8)
	check(renewAfter-1, say(9, nil), 8)
	require.Equal(t, 1, asked, "an answer from before the revocation is not cached")

	check(renewAfter, say(0, errors.New("away")), 8)
	check(renewAfter, say(9, nil), 8)
	require.Equal(t, 2, asked, "one caller has tried")
	_, _, err := b.Get("key", now.Add(validFor), say(0, errors.New("away")))
	require.Error(t, err, "no value is cached any more")
	check(validFor, say(9, nil), 9)
	check(validFor+renewAfter, say(0, nil), 0)
	check(validFor+renewAfter, say(0, nil), 0)
	require.Equal(t, 6, asked, "a missing value is not cached")
}

func TestCache_OneCallerRefreshesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Cache[string, int]
		var asked atomic.Int32
		ask := func() (int, bool, error) {
			asked.Add(1)
			time.Sleep(time.Millisecond)
			return 1, true, t.Context().Err()
		}
		_, _, err := b.Get("key", time.Now(), ask)
		require.NoError(t, err)
		for range 10 {
			time.Sleep(renewAfter)
			var callers sync.WaitGroup
			for range 64 {
				callers.Go(func() {
					value, ok, err := b.Get("key", time.Now(), ask)
					if value != 1 || !ok || err != nil {
						t.Errorf("%d, %t, %v", value, ok, err)
					}
				})
			}
			callers.Wait()
		}
		require.EqualValues(t, 11, asked.Load())
	})
}
