package controlplane

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFailures_AreNotedOnceAMinuteForEachAccount(t *testing.T) {
	var f failures
	at, from := time.Unix(1_800_000_000, 0), netip.MustParseAddr("192.0.2.1")
	require.Empty(t, f.due(at, true))
	f.countFailure(7, false, netip.Addr{})
	f.countFailure(7, true, from)
	require.Equal(t, []FailedSignIns{{UserID: 7, Passwords: 1, Codes: 1, Address: from}}, f.due(at, false))
	for range 1_000 {
		f.countFailure(7, false, from)
		require.Empty(t, f.due(at.Add(failuresInterval-1), false))
	}
	f.countFailure(8, false, from)
	require.Equal(t, []FailedSignIns{{UserID: 8, Passwords: 1, Address: from}}, f.due(at.Add(failuresInterval-1), false), "another account")
	require.Equal(t, []FailedSignIns{{UserID: 7, Passwords: 1_000, Address: from}}, f.due(at.Add(failuresInterval), false))
	f.countFailure(7, false, from)
	require.Len(t, f.due(at.Add(failuresInterval), true), 1, "what is left is noted at the end")
	require.Empty(t, f.due(at.Add(3*failuresInterval), false))
	require.Empty(t, f.by, "nothing is kept of accounts without failures")
	for user := range int64(maxNoted + 10) {
		f.countFailure(user, false, from)
	}
	require.Len(t, f.by, maxNoted)
}
