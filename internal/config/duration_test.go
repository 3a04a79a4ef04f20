package config_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

func TestDurationsHaveDaysAndWeeksToo(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "2d": 2 * day, "1w": 7 * day, "1w2d12h": 9*day + 12*time.Hour,
		"0": 0, "0d": 0, "-1d12h": -(day + 12*time.Hour), "-5s": -5 * time.Second, "+2d": 2 * day, "106751d": 106751 * day,
	} {
		got, err := config.ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "-", "+", "5", "d", "2d1w", "1.5d", "2 d", "2d-1h", "--1h", "+-1h", "1D", "2d5", "\n1d",
	} {
		_, err := config.ParseDuration(text)
		require.ErrorContains(t, err, "is no duration", text)
	}
	for _, text := range []string{"106752d", "106751d24h", "99999999999999999999d", "15251w", "2562048h", "-400000d"} {
		_, err := config.ParseDuration(text)
		require.EqualError(t, err, strconv.Quote(text)+" is too long: at most 106751d")
	}
}

func TestEveryLayerOfTheConfigurationTakesDays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "waypost.yaml")
	require.NoError(t, os.WriteFile(file, []byte("edge:\n  drain_delay: 2d\n"), 0o600))
	cfg, err := config.Load(config.Sources{File: file, Environ: []string{"WAYPOST_CLEANUP_PURGE_AFTER=13w"}})
	require.NoError(t, err)
	require.Equal(t, 48*time.Hour, cfg.Edge.DrainDelay)
	require.Equal(t, 91*24*time.Hour, cfg.Cleanup.PurgeAfter)
	for _, text := range []string{"2 days", "5", "[1d]"} {
		require.NoError(t, os.WriteFile(file, []byte("edge:\n  drain_delay: "+text+"\n"), 0o600))
		_, err = config.Load(config.Sources{File: file})
		require.ErrorContains(t, err, ":2:", text)
		require.ErrorContains(t, err, "this must be a time with a unit, such as 5s, 1m30s or 90d", text)
	}
}
