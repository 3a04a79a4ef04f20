package system_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// PostgreSQL's files are replaced by an older copy, and nothing in the copy shows that.
// The control plane has lost all other memory, and the edges are new.
func TestAControlPlanesOwnReplicaKnowsWhatPostgreSQLHasForgotten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	start := func() *devtest.System {
		return devtest.Start(t, devtest.Config{DataDir: dir, Edges: "us-east-1=127.0.0.1:0", Env: []string{"WAYPOST_CONTROL_REPLICA=true"}})
	}
	create := func(code string) {
		r := devtest.Run(t, []string{"WAYPOST_DATA_DIR=" + dir}, "links", "create", "https://example.com/"+code, "--code", code, "--wait", "all")
		require.Zero(t, r.Code, r.Stderr)
	}
	files, copied := filepath.Join(dir, "postgres", "data"), filepath.Join(t.TempDir(), "copy")

	s := start()
	create("kept-1")
	s.Stop()
	devtest.CopyTree(t, files, copied)
	s = start()
	for _, code := range []string{"lost-1", "lost-2", "lost-3"} {
		create(code)
	}
	s.Stop()
	devtest.CopyTree(t, copied, files)
	require.NoError(t, os.Remove(filepath.Join(dir, "control", "keys.witness")))
	edges, err := filepath.Glob(filepath.Join(dir, "edges", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, edges)
	for _, e := range edges {
		require.NoError(t, os.RemoveAll(e))
	}

	s = start()
	defer s.Stop()
	eventually(t, time.Minute, "in a new epoch", func() bool {
		at := position(t, s.State().Edges[0].AdminURL)
		return at != "" && !strings.HasPrefix(at, "1-")
	})
	// And edges that were filled by then took their snapshot from the replica, or from
	// PostgreSQL: they hold the same.
	requireRedirects(t, s.State(), []created{{Code: "kept-1", Target: "https://example.com/kept-1"}})
}
