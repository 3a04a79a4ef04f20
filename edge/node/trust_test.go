package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/datadir"
	"waypost/replication"
)

func TestTheControlPlanesKeyIsKeptOnceThereIsADirectoryAndSetAsideWhenItCannotBeRead(t *testing.T) {
	root := filepath.Join(t.TempDir(), "edge")
	s := &store{root: root, log: slog.New(slog.DiscardHandler), opened: make(chan struct{})}
	require.NoError(t, s.openTrust())
	require.NoError(t, s.keepTrust([]byte("pinned before there is a directory")))
	require.NoDirExists(t, root)
	require.Equal(t, "pinned before there is a directory", string(*s.untilOpened.Load()))

	var err error
	s.dir, err = datadir.Open(root, datadir.Edge, 0o700)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.dir.Close()) }()
	close(s.opened)
	require.NoError(t, s.keepTrust([]byte("no document")))
	require.NoError(t, s.openTrust(), "an edge that follows nobody is worse than one that pins anew")
	require.Empty(t, s.trust.Testimony())
	require.NoFileExists(t, filepath.Join(root, trustFile))
	aside, err := filepath.Glob(filepath.Join(root, trustFile+".unreadable-*"))
	require.NoError(t, err)
	require.Len(t, aside, 1)
	text, err := os.ReadFile(aside[0])
	require.NoError(t, err)
	require.Equal(t, "no document", string(text))
	_, err = replication.NewTrust(text, nil)
	require.Error(t, err)
}
