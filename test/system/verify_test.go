package system_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/test/devtest"
)

// removeRecord takes a link's record away from a replica that no process has open.
func removeRecord(t *testing.T, dataDir, code string) {
	t.Helper()
	store := ""
	require.NoError(t, filepath.WalkDir(dataDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "CURRENT" {
			if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(text), "waypost-replica ") {
				store = filepath.Join(filepath.Dir(path), strings.Fields(string(text))[2])
			}
		}
		return nil // PostgreSQL's directory may be another user's
	}))
	require.NotEmpty(t, store)
	db, err := pebble.Open(store, &pebble.Options{
		WALDir:             pebble.MakeStoreRelativePath(vfs.Default, "wal"),
		FormatMajorVersion: pebble.FormatTableFormatV6, ErrorIfNotExists: true,
	})
	require.NoError(t, err)
	it, err := db.NewIter(nil)
	require.NoError(t, err)
	removed := 0
	for ok := it.First(); ok; ok = it.Next() {
		if key := it.Key(); key[0] == 'r' && key[3] == 1 && bytes.HasSuffix(key, []byte(code)) {
			require.NoError(t, db.Delete(bytes.Clone(key), pebble.Sync))
			removed++
		}
	}
	require.NoError(t, it.Close())
	require.NoError(t, db.Close())
	require.Equal(t, 1, removed)
}

// awaitImport waits until an import is in a state.
func awaitImport(t *testing.T, api *client.Client, id, state string) (i client.Import) {
	t.Helper()
	eventually(t, time.Minute, "the import is "+state, func() bool {
		var err error
		i, err = api.Imports.Find(t.Context(), id)
		require.NoError(t, err)
		require.Empty(t, i.Problem)
		return i.State == state
	})
	return i
}

func TestAnEdgeIsVerifiedAndRepairedAndHoldsAMassDeletionUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{Edges: "eu-west-1=127.0.0.1:0"})
	byHand := func(sql string) {
		t.Helper()
		cfg, err := pgx.ParseConfig(s.State().DatabaseURL)
		require.NoError(t, err)
		cfg.User = "postgres"
		hand, err := pgx.ConnectConfig(t.Context(), cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, hand.Close(context.Background())) }()
		_, err = hand.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	run := func(args ...string) devtest.Result {
		t.Helper()
		return devtest.Run(t, []string{"WAYPOST_DATA_DIR=" + s.DataDir()}, args...)
	}
	// An edge that stands still for long is not alive. Then all are verified once more.
	verifyAll := func() (r devtest.Result) {
		t.Helper()
		eventually(t, time.Minute, "verified while it is alive", func() bool {
			r = run("verify", "--all")
			return !strings.Contains(r.Stderr, "there is no edge") && !strings.Contains(r.Stdout, "it is silent")
		})
		return r
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: time.Minute}
	status := func(code string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.State().Edges[0].URL+"/"+code, http.NoBody)
		require.NoError(t, err)
		res, err := browser.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	node := s.State().Edges[0].Node
	api, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	t.Cleanup(api.Close)

	// The API is asked before the command is, which takes long to start.
	awaitEdge := func(what string, is func(client.Edge) bool) {
		t.Helper()
		api, err := client.New(s.State().API, s.State().APIKey)
		require.NoError(t, err)
		defer api.Close()
		eventually(t, time.Minute, what, func() bool { return is(fleetOf(t, api)[node]) })
	}

	// As soon as the edge is there, and while links are created, its records add up.
	awaitEdge("alive", func(e client.Edge) bool { return e.State == "alive" })
	eventually(t, time.Minute, "the edge is there", func() bool { return strings.Contains(run("edges").Stdout, "alive") })
	creating, enough := context.WithCancel(t.Context())
	created := make(chan error, 1)
	go func() {
		for err := error(nil); ; _, err = api.Links.Create(creating, client.NewLink{OriginalURL: "https://example.com/"}) {
			if err != nil {
				created <- err
				return
			}
			time.Sleep(5 * time.Millisecond) // others need the processors, too
		}
	}()
	for range 2 {
		r := verifyAll()
		require.Zero(t, r.Code, r.Stdout+r.Stderr)
		require.Regexp(t, node+` +\d+ .* sound`, r.Stdout)
	}
	enough()
	require.ErrorIs(t, <-created, context.Canceled)
	for range 2 {
		_, err := api.Links.Create(t.Context(), client.NewLink{OriginalURL: "https://example.com/"})
		require.NoError(t, err)
		r := run("verify", "--edge", node)
		require.Zero(t, r.Code, r.Stdout+r.Stderr)
	}

	byHand(`INSERT INTO link (workspace_id, domain_id, code, custom, original_url) SELECT 1, 1, 'mass' || n, true, 'https://example.com/' || n FROM generate_series(1, 1500) n`)
	eventually(t, time.Minute, "the links are at the edge", func() bool { return status("mass1500") == 302 })
	r := verifyAll()
	require.Zero(t, r.Code, r.Stderr)
	require.Regexp(t, node+` +\d+ .* sound`, r.Stdout)
	shown := regexp.MustCompile(node + ` .* sound `)
	awaitEdge("verified", func(e client.Edge) bool { return e.Verified != nil })
	eventually(t, time.Minute, "shown in the fleet view", func() bool { return shown.MatchString(run("edges").Stdout) })
	require.Equal(t, 1, run("verify", "--edge", "nobody").Code)
	require.Equal(t, 64, run("verify").Code)

	s.Stop()
	removeRecord(t, s.DataDir(), "mass77")
	s.Again()
	eventually(t, time.Minute, "the edge serves", func() bool { return status("mass1") == 302 })
	eventually(t, time.Minute, "the edge has repaired itself", func() bool { return status("mass77") == 302 })
	eventually(t, time.Minute, "the edge is sound", func() bool { return verifyAll().Code == 0 })

	require.Contains(t, run("edges", "accept", node, "--yes").Stderr, "nothing is held")
	byHand(`UPDATE link SET deleted_at = now() WHERE code LIKE 'mass%'`)
	awaitEdge("held", func(e client.Edge) bool { return e.Held != "" })
	eventually(t, time.Minute, "the deletion is held", func() bool { return strings.Contains(run("edges").Stdout, "HELD: mass-delete") })
	require.Equal(t, 302, status("mass77"))
	require.Contains(t, run("edges", "accept", node, "--what", "empty-snapshot", "--yes").Stderr, "what is held is mass-delete")
	r = run("edges", "accept", node, "--yes")
	require.Zero(t, r.Code, r.Stderr)
	eventually(t, time.Minute, "the deletion is taken", func() bool { return status("mass77") == 410 })
	awaitEdge("no longer held", func(e client.Edge) bool { return e.Held == "" })
	eventually(t, time.Minute, "nothing is held", func() bool { return !strings.Contains(run("edges").Stdout, "HELD") })

	// The undo of an import is no accident, and its codes can be had again.
	api, err = client.New(s.State().API, s.State().APIKey) // at another port than before
	require.NoError(t, err)
	defer api.Close()
	importRows := func(to string) string {
		t.Helper()
		var file strings.Builder
		file.WriteString("original_url,custom_code,aliases\n")
		for n := range 1500 {
			fmt.Fprintf(&file, "https://example.com/%s/%d,moved-%d,%s\n", to, n, n, strings.Repeat(fmt.Sprintf("also-%d", n), (n+9)%10/9))
		}
		i, err := api.Imports.Begin(t.Context(), client.NewImport{Name: to})
		require.NoError(t, err)
		_, err = api.Imports.Upload(t.Context(), i.ID, strings.NewReader(file.String()), nil)
		require.NoError(t, err)
		awaitImport(t, api, i.ID, "ready")
		_, err = api.Imports.Run(t.Context(), i.ID, false)
		require.NoError(t, err)
		require.EqualValues(t, 1500, awaitImport(t, api, i.ID, "done").Counts.Created)
		eventually(t, time.Minute, "the imported links are at the edge", func() bool { return status("moved-1490") == 302 && status("also-0") == 302 })
		return i.ID
	}
	id := importRows("first")
	_, err = api.Imports.Undo(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, 1500, awaitImport(t, api, id, "undone").Counts.Removed)
	eventually(t, time.Minute, "the undo is at the edge", func() bool { return status("moved-1490") == 410 && status("also-0") == 404 })
	importRows("second")
	r = verifyAll()
	require.Zero(t, r.Code, r.Stdout+r.Stderr)
	require.NotContains(t, run("edges").Stdout, "HELD")

	audit := run("audit", "--output", "json").Stdout
	require.Contains(t, audit, "imports.undo")
	require.Contains(t, audit, "edges.accept")
	require.Contains(t, audit, "edges.verify")
}
