package node

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/datadir"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

// remembering is the store of an edge with a directory, and what it logs. Full: with a
// replica of what a control plane has.
func remembering(t *testing.T, full bool) (s *store, log *bytes.Buffer) {
	t.Helper()
	s, log = relayed(t), new(bytes.Buffer)
	s.log = slog.New(slog.NewTextHandler(log, nil))
	var err error
	s.dir, err = datadir.Open(filepath.Join(t.TempDir(), "edge"), datadir.Edge, 0o700)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.dir.Close()) })
	if full {
		source := replicationtest.NewSource()
		at := source.Commit(replicationtest.Link("code", "https://example.com/"))
		web := httptest.NewServer(changelogServer(t, replication.ServerConfig{Source: source}))
		t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
		_, stop := followerOf(t, web.URL, s, nil)
		require.Eventually(t, func() bool { return s.Position() == at }, time.Minute, time.Millisecond)
		stop()
	}
	return s, log
}

func TestWhateverIsWrongWithTheFileOfTheHeadTheEdgeRunsAndSaysSo(t *testing.T) {
	s, log := remembering(t, true)
	file := s.dir.Path(headFile)
	said := func() string { defer log.Reset(); return log.String() }
	aside := func() int {
		t.Helper()
		all, err := filepath.Glob(file + ".unreadable-*")
		require.NoError(t, err)
		for _, path := range all {
			require.NoError(t, os.RemoveAll(path))
		}
		return len(all)
	}

	require.Zero(t, s.recallHead(), "the file is missing")
	require.Contains(t, said(), "age from this start")
	require.Zero(t, aside())

	seen := headSeen{at: time.Now().Add(-72 * time.Hour).Truncate(time.Millisecond).UTC(), origin: 7}
	require.NoError(t, s.keepHead(seen))
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Equal(t, seen, s.recallHead())
	require.Empty(t, said())
	require.FileExists(t, file)

	require.NoError(t, s.keepHead(headSeen{at: time.Now().Add(time.Hour)}))
	s.recallHead()
	require.Contains(t, said(), "at a future time")

	for name, damage := range map[string]func() error{
		"no document": func() error { return os.WriteFile(file, []byte("no document"), 0o600) },
		"too long":    func() error { return os.WriteFile(file, bytes.Repeat([]byte(" "), 1<<20), 0o600) },
		"no times":    func() error { return os.WriteFile(file, []byte("{}"), 0o600) },
		"two":         func() error { return os.WriteFile(file, []byte("{}{}"), 0o600) },
		"a directory": func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
	} {
		require.NoError(t, s.keepHead(seen))
		require.NoError(t, damage(), name)
		require.Zero(t, s.recallHead(), name)
		require.Contains(t, said(), "the file is set aside", name)
		require.NoFileExists(t, file, name)
		require.Equal(t, 1, aside(), name)
	}
}

func TestWhatWasAtTheHeadOnceSaysNothingOfAnEmptyReplica(t *testing.T) {
	s, log := remembering(t, false)
	require.NoError(t, s.keepHead(headSeen{at: time.Now()}))
	require.Zero(t, s.recallHead())
	require.NoFileExists(t, s.dir.Path(headFile))
	require.Zero(t, s.recallHead(), "a new edge")
	require.Empty(t, log.String())
}
