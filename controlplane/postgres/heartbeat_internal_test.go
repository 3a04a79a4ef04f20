package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNobodyIsSilentForLongAfterTheDatabasesClockHasJumped(t *testing.T) {
	for name, jump := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			a := attendance{start: start}
			var steady time.Duration
			at := func(seconds int, jumped time.Duration) time.Duration {
				own := start.Add(time.Duration(seconds) * time.Second)
				steady = a.round(own, own.Round(0).Add(-3*time.Minute+jumped))
				return steady
			}
			for s := 0; s <= 100; s += 5 {
				require.Equal(t, time.Duration(s)*time.Second, at(s, time.Duration(s)*time.Millisecond), "clocks differ, and drift")
			}
			require.Zero(t, at(105, jump))
			require.Equal(t, 5*time.Second, at(110, jump))
			a.interrupted()
			require.Zero(t, at(115, jump))
		})
	}
}
