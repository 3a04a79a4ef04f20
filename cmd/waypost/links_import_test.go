package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheProgressOfAnImportIsBesideItsFileOrElseInTheUsersCache(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	sum := strings.Repeat("ab", 32)

	writable := filepath.Join(t.TempDir(), "links.csv")
	got, err := progressFile(writable, sum)
	require.NoError(t, err)
	require.Equal(t, writable+".progress", got)

	for range 2 { // the same at every start, so that it can be resumed
		got, err = progressFile("/proc/1/links.csv/that/nobody/can/write", sum)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(cache, "waypost", "imports", sum[:32]+".progress"), got)
	}
	require.DirExists(t, filepath.Dir(got))
}
