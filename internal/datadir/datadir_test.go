package datadir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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

func TestALockThatIsHandedOverHoldsTheDirectoryUntilBothHaveLetGo(t *testing.T) {
	root := filepath.Join(t.TempDir(), "edge")
	first, err := datadir.Open(root, datadir.Edge, 0o700)
	require.NoError(t, err)
	handOver := func() *os.File {
		fd, err := unix.FcntlInt(first.Lock().Fd(), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		return os.NewFile(uintptr(fd), "lock")
	}
	_, err = datadir.Adopt(root, datadir.Dev, handOver())
	require.ErrorContains(t, err, "of another kind")
	other := filepath.Join(t.TempDir(), "other")
	foreign, err := datadir.Open(other, datadir.Edge, 0o700)
	require.NoError(t, err)
	_, err = datadir.Adopt(other, datadir.Edge, handOver())
	require.ErrorContains(t, err, "is not that of")
	require.NoError(t, foreign.Close())

	second, err := datadir.Adopt(root, datadir.Edge, handOver())
	require.NoError(t, err)
	require.NoError(t, second.Sign())
	require.NoError(t, first.Close())
	_, err = datadir.Open(root, datadir.Edge, 0o700)
	require.ErrorIs(t, err, datadir.ErrInUse)
	require.NoError(t, second.Close())
	third, err := datadir.Open(root, datadir.Edge, 0o700)
	require.NoError(t, err)
	require.NoError(t, third.Close())
}
