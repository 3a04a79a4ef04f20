package datadir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/datadir"
)

func TestADirectoryIsMadeMarkedAndLockedForOneProcess(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "b")
	marked, err := datadir.Inspect(root, datadir.Edge)
	require.NoError(t, err)
	require.False(t, marked)
	require.NoDirExists(t, root, "looking changes nothing")

	d, err := datadir.Open(root, datadir.Edge, 0o700)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "x", "y"), d.Path("x", "y"))
	_, err = datadir.Open(root, datadir.Edge, 0o700)
	require.ErrorContains(t, err, fmt.Sprintf("is in use by process %d", os.Getpid()))

	require.NoError(t, d.Close())
	marked, err = datadir.Inspect(root, datadir.Edge)
	require.NoError(t, err)
	require.True(t, marked)
	d, err = datadir.Open(root, datadir.Edge, 0o700)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

func TestADirectoryOfAnotherKindOrNobodysIsRefusedUntouched(t *testing.T) {
	other := t.TempDir()
	d, err := datadir.Open(other, datadir.Edge, 0o700)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	_, err = datadir.Open(other, datadir.Dev, 0o700)
	require.ErrorContains(t, err, `"waypost edge 1", not "waypost dev 1"`)

	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "photo.jpg"), nil, 0o600))
	_, err = datadir.Open(foreign, datadir.Dev, 0o700)
	require.ErrorContains(t, err, "was not made by Waypost (it has photo.jpg)")
	entries, err := os.ReadDir(foreign)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestOpen_TakesANewFileSystem(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "lost+found"), 0o700))
	d, err := datadir.Open(root, datadir.Control, 0o700)
	require.NoError(t, err)
	require.NoError(t, d.Close())

	file := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(file, "lost+found"), nil, 0o600))
	_, err = datadir.Open(file, datadir.Control, 0o700)
	require.ErrorContains(t, err, "was not made by Waypost (it has lost+found)")
}

func TestAFirstStartThatWasKilledAtOnceIsNoObstacle(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"lock", ".format.123"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	d, err := datadir.Open(root, datadir.Dev, 0o700)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

func TestHolder_NamesOnlyAProcessThatHoldsTheDirectory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "edge")
	_, err := datadir.Holder(root)
	require.ErrorContains(t, err, "no process runs in the data directory")
	d, err := datadir.Open(root, datadir.Edge, 0o700)
	require.NoError(t, err)
	pid, err := datadir.Holder(root)
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), pid)
	require.NoError(t, d.Close())
	_, err = datadir.Holder(root) // this process has the id, and not the directory
	require.ErrorContains(t, err, "the last one was "+strconv.Itoa(pid)+", which has ended")
}
