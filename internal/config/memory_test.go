package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

func TestDiskSpaceForTheClickJournal(t *testing.T) {
	for text, want := range map[string]int64{"auto": 0, "": 0, "67108864": 64 << 20, "64MiB": 64 << 20, "2GiB": 2 << 30} {
		got, err := config.ParseClickJournal(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"0", "-1", "63MiB", "1GB", "GiB", "9999999999999TiB", "MAX"} {
		_, err := config.ParseClickJournal(text)
		require.Error(t, err, text)
	}
}
