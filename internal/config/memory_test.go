package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/config"
)

func TestMemoryForTheLookupTable(t *testing.T) {
	for text, want := range map[string]int64{
		"auto": 0, "": 0, "0": -1, "1048576": 1 << 20, "1MiB": 1 << 20, "2048KiB": 2 << 20, "3GiB": 3 << 30, "1TiB": 1 << 40,
	} {
		got, err := config.ParseLookupMemory(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"-1", "1GB", "GiB", "1 GiB", "1.5GiB", "1048575", "0MiB", "9999999999999TiB", "99999999999999999999", "MAX", "0x10MiB",
	} {
		_, err := config.ParseLookupMemory(text)
		require.Error(t, err, text)
	}
}

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
