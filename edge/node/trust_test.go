package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/datadir"
)

func TestTheControlPlanesKeyIsKeptOnceThereIsADirectory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "edge")
	s := &store{root: root, log: slog.New(slog.DiscardHandler), opened: make(chan struct{})}
	require.NoError(t, s.keepTrust([]byte("pinned before there is a directory")))
	require.NoDirExists(t, root)
	require.Equal(t, "pinned before there is a directory", string(*s.untilOpened.Load()))

	var err error
	s.dir, err = datadir.Open(root, datadir.Edge, 0o700)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.dir.Close()) }()
	close(s.opened)
	require.NoError(t, s.keepTrust([]byte("kept")))
	text, err := os.ReadFile(filepath.Join(root, trustFile))
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
}
