package node

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/datadir"
	"waypost/replication"
	"waypost/replication/replicationtest"
)

func TestTheFileOfTheHeadIsReadAsItIsWrittenAndNothingElseIs(t *testing.T) {
	at := time.Date(2026, 11, 23, 4, 49, 19, 123_999_999, time.FixedZone("", 3600))
	line := headSeen{at: at, origin: 1_795_404_558_500}.line()
	require.Equal(t, "waypost-head 1 2026-11-23T03:49:19.123Z 2026-11-23T03:29:18.500Z\n", string(line))
	h, err := parseHead(line)
	require.NoError(t, err)
	require.Equal(t, at.Truncate(time.Millisecond).UTC(), h.at, "no younger than it is")
	require.EqualValues(t, 1_795_404_558_500, h.origin)

	const good = "waypost-head 1 2026-11-23T03:49:19.123Z 2026-11-23T03:29:18.500Z\n"
	for name, text := range map[string]string{
		"nothing":                     "",
		"zeros":                       strings.Repeat("\x00", len(good)),
		"a line that is cut off":      good[:len(good)-1],
		"a time that is cut off":      good[:len(good)-6] + "\n",
		"only one time":               "waypost-head 1 2026-11-23T03:49:19.123Z\n",
		"a third time":                strings.TrimSuffix(good, "\n") + " 2026-11-23T03:29:18.500Z\n",
		"another line":                good + good,
		"another format version":      strings.Replace(good, " 1 ", " 2 ", 1),
		"another file":                "waypost-replica 2 store-000007\n",
		"a day that does not exist":   strings.Replace(good, "11-23T03:49", "02-30T03:49", 1),
		"another zone":                strings.Replace(good, ".123Z", ".123+01:00", 1),
		"other digits of the seconds": strings.Replace(good, ".123Z", ".12Z", 1),
		"a year before clocks":        strings.Replace(good, "2026-11-23T03:49", "0001-11-23T03:49", 1),
		"an origin before clocks":     strings.Replace(good, "2026-11-23T03:29", "1969-11-23T03:29", 1),
		"spaces":                      strings.Replace(good, "Z 2", "Z  2", 1),
	} {
		t.Run(name, func(t *testing.T) {
			h, err := parseHead([]byte(text))
			require.ErrorIs(t, err, errHead)
			require.Zero(t, h)
		})
	}
}

func FuzzTheFileOfTheHead(f *testing.F) {
	f.Add([]byte("waypost-head 1 2026-11-23T03:49:19.123Z 2026-11-23T03:29:18.500Z\n"))
	f.Add([]byte("waypost-head 1 9999-12-31T23:59:59.999Z 1970-01-01T00:00:00.000Z\n"))
	f.Add([]byte("waypost-head 1 \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := parseHead(text)
		if err != nil {
			require.ErrorIs(t, err, errHead)
			require.Zero(t, h)
			return
		}
		require.Equal(t, string(text), string(h.line()))
		var fresh freshness
		fresh.startAt(time.Now(), h)
		require.GreaterOrEqual(t, fresh.age(), time.Duration(0))
		require.False(t, h.heard(fresh.start).AdvancedAt.After(fresh.start))
	})
}

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
		"too long":    func() error { return os.WriteFile(file, append(seen.line(), make([]byte, 1<<20)...), 0o600) },
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
