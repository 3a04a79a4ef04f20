package system_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/test/devtest"
)

// The owner of the database changes rows past the triggers. Edges serve and follow, but
// are not repaired, and a new one gets nothing, until the digest is recomputed.
func TestSource_WhoseRowsDoNotAddUpIsNoticedAndMended(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{})
	cfg, err := pgx.ParseConfig(s.State().DatabaseURL)
	require.NoError(t, err)
	cfg.User = "postgres"
	hand, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hand.Close(context.Background())) })
	byHand := func(sql string) {
		t.Helper()
		_, err := hand.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	run := func(args ...string) devtest.Result {
		t.Helper()
		return devtest.Run(t, []string{"WAYPOST_DATA_DIR=" + s.DataDir()}, args...)
	}
	api, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	t.Cleanup(api.Close)
	create := func(code, wait string) {
		t.Helper()
		r := run("links", "create", "https://example.com/"+code, "--code", code, "--wait", wait)
		require.Zero(t, r.Code, r.Stderr)
	}
	get := func(url string) (int, map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		res, err := visitor.Do(req)
		require.NoError(t, err)
		var body map[string]any
		_ = json.NewDecoder(res.Body).Decode(&body) // a redirect has none
		require.NoError(t, res.Body.Close())
		return res.StatusCode, body
	}
	statuses := func(code string) (all []int) {
		t.Helper()
		for _, e := range s.State().Edges {
			status, _ := get(e.URL + "/" + code)
			all = append(all, status)
		}
		return all
	}
	for _, code := range []string{"kept", "lost", "changed"} {
		create(code, "all")
	}
	require.Equal(t, []int{302, 302}, statuses("lost"))
	r := run("verify", "--source")
	require.Zero(t, r.Code, r.Stderr)
	require.Contains(t, r.Stdout, ": equal")

	byHand(`ALTER TABLE link DISABLE TRIGGER ALL`)
	byHand(`DELETE FROM link WHERE code = 'lost'`)
	byHand(`UPDATE link SET stamp = stamp # 5 WHERE code = 'changed'`)
	byHand(`ALTER TABLE link ENABLE TRIGGER ALL`)

	r = run("verify", "--source")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stdout, "DIFFERENT")
	eventually(t, time.Minute, "logged", func() bool {
		return strings.Contains(s.Output(), "PostgreSQL's own rows do not add up to the digest of the changelog; edges continue")
	})
	require.Contains(t, run("edges").Stderr, "run `waypost verify --source`")
	status, ready := get(s.State().Control.AdminURL + "/readyz")
	require.Equal(t, 200, status)
	require.Contains(t, ready["error"], "do not add up")

	// Edges are sound and continue.
	require.Zero(t, run("verify", "--all").Code)
	require.Equal(t, []int{302, 302}, statuses("lost"))
	create("later", "all")
	require.Equal(t, []int{302, 302}, statuses("later"))
	require.NotContains(t, s.Output(), "slots of the replica differ from the source's", "no repair has begun")

	// A new edge is refused a snapshot, again and again, and does not load it in vain.
	third := startFollower(t, s, "third", s.State().Fleet)
	eventually(t, time.Minute, "refused", func() bool { return strings.Contains(third.process.Output(), "no edge can be repaired") })

	// Only an operator who says so twice changes it.
	require.Equal(t, 64, run("verify", "--recompute").Code)
	require.NotZero(t, run("verify", "--source", "--recompute").Code)
	r = run("verify", "--source", "--recompute", "--yes")
	require.Zero(t, r.Code, r.Stderr)
	require.Contains(t, r.Stdout, ": equal")
	eventually(t, time.Minute, "what PostgreSQL holds", func() bool {
		lost, kept := statuses("lost"), statuses("kept")
		return lost[0] == 404 && lost[1] == 404 && kept[0] == 302 && kept[1] == 302
	})
	eventually(t, time.Minute, "sound everywhere", func() bool { return run("verify", "--all").Code == 0 })
	third.awaitLink("later")
	require.NotContains(t, run("edges").Stderr, "verify --source")
	require.Contains(t, run("audit", "--output", "json").Stdout, "changelog.recompute")
	create("last", "all")
	require.Equal(t, []int{302, 302}, statuses("last"))
}
