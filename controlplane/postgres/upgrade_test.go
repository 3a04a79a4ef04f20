package postgres_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
)

// released is the schema of the last release.
const released = 7

// releasedDatabase gives a database as the last release made it, and a plain
// connection to it.
func releasedDatabase(t *testing.T) (url string, hand *pgx.Conn) {
	server := cluster.Server(t)
	require.NoError(t, server.CreateDatabase(t.Context(), "released", ""))
	t.Cleanup(func() { require.NoError(t, server.DropDatabase(context.Background(), "released")) })
	url = server.DatabaseURL("released")
	migrateTo(t, url, released)
	return url, psql(t, url)
}

func migrateTo(t *testing.T, url string, version int64) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("../../migrations"))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), version)
	require.NoError(t, err)
}

func TestAMigrationKeepsNobodyWaitingWhileATableIsHeld(t *testing.T) {
	server := cluster.Server(t)
	hand := psql(t, cluster.Database(t))
	exec(t, hand, `CREATE DATABASE dumped OWNER waypost`)
	t.Cleanup(func() { require.NoError(t, server.DropDatabase(context.Background(), "dumped")) })
	url := server.DatabaseURL("dumped")
	migrateTo(t, url, 18)
	dump := psql(t, url)
	tx, err := dump.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `LOCK TABLE link IN ACCESS SHARE MODE`) // as pg_dump does
	done := make(chan error, 1)
	go func() { done <- migrations.Up(t.Context(), url+"&statement_timeout=1") }()
	require.Eventually(t, func() bool {
		return number(t, hand, `SELECT count(*) FROM pg_stat_activity WHERE datname = 'dumped' AND wait_event_type = 'Lock'`) > 0
	}, time.Minute, time.Millisecond)
	reader := psql(t, url)
	require.Zero(t, number(t, reader, `SELECT count(*) FROM link`), "it comes to its turn")
	require.Empty(t, done)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-done)
}

// fill writes what the last release wrote: its statements, with values.
func fill(t *testing.T, hand *pgx.Conn, key string) {
	mac := hmac.New(sha256.New, make([]byte, 32))
	mac.Write([]byte("waypost cluster secret check"))
	hash := sha256.Sum256([]byte(key))
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO cluster (code_length, prefix_length, secret_check) VALUES (7, 2, '\x%x')`, mac.Sum(nil)),
		`UPDATE domain SET host = 'go.example.com' WHERE id = 1`,
		`INSERT INTO workspace (id, name, slug) VALUES (2, 'Marketing', 'marketing')`,
		`INSERT INTO domain (id, workspace_id, host, root_url) VALUES (2, 2, 'm.example.com', 'https://example.com/root')`,
		fmt.Sprintf(`INSERT INTO api_key (workspace_id, name, prefix, hash, scopes) VALUES (2, 'ci', '%s', '\x%x', '{links:read,links:write,analytics:read}')`, key[:controlplane.KeyDisplay], hash),
		`INSERT INTO link (workspace_id, domain_id, code, custom, original_url, location, redirect_status, title, description, tags, metadata, created_by, expires_at, forward_query, forward_path) VALUES
			(1, 1, 'spring', true, 'https://example.com/spring', NULL, 302, '', '', '{}', NULL, '', NULL, false, false),
			(2, 1, 'Ab3dEf7', false, 'https://example.com/ü?a&b', 'https://example.com/%C3%BC?a&b', 301, 'Über uns', 'Who we are', '{a,b}', '{"n": 1}', 'ann', NULL, true, false),
			(2, 2, 'sale', true, 'https://example.com/sale', NULL, 302, '', '', '{b}', NULL, '', '2020-01-01', false, true),
			(2, 1, 'gone', true, 'https://example.com/gone', NULL, 302, '', '', '{}', NULL, '', NULL, false, false)`,
		`UPDATE link SET deleted_at = now() WHERE code = 'gone'`,
		`INSERT INTO click_watermark (node, boot, seq, hash, clicks, unknown) VALUES ('edge-1', '01010101-0101-0101-0101-010101010101', 1, decode(repeat('ab', 32), 'hex'), 53, 2)`,
		`INSERT INTO click_batch (node, boot, seq, hash, clicks) VALUES ('edge-1', '01010101-0101-0101-0101-010101010101', 1, decode(repeat('ab', 32), 'hex'), 55)`,
		`INSERT INTO link_click (link_id, workspace_id, clicks, bot_clicks, last_accessed_at)
			SELECT id, workspace_id, n, b, '2026-01-02T03:04:05Z' FROM link JOIN (VALUES ('spring', 11, 1), ('Ab3dEf7', 30, 4), ('sale', 5, 0), ('gone', 7, 2)) v (c, n, b) ON c = code`,
	} {
		exec(t, hand, statement)
	}
}

func TestADatabaseOfTheLastReleaseKeepsEverythingThatItHad(t *testing.T) {
	key, err := controlplane.NewKey()
	require.NoError(t, err)
	url, hand := releasedDatabase(t)
	fill(t, hand, key)
	require.NoError(t, migrations.Up(t.Context(), url))
	require.NoError(t, migrations.Up(t.Context(), url), "and once more, as at every start")

	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgservertest.Patient(url)})
	require.NoError(t, err)
	defer db.Close()
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err, "the secret is the same")
	service := controlplane.New(controlplane.Config{
		Links: db, Leases: db, Ranges: db, Reserved: db, Audit: db, Keys: db, Domains: db, Access: db, Stats: db, Progress: db, Eraser: db, Salts: db,
		Answers: db, Twins: db, Edits: db, DomainEdits: db, Region: "eu",
	})
	actor, err := service.Authenticate(t.Context(), key)
	require.NoError(t, err)
	require.EqualValues(t, 2, actor.Workspace)
	require.True(t, actor.Can(controlplane.ScopeAnalytics))
	require.False(t, actor.Can(controlplane.ScopeAdmin))

	l, err := service.Find(t.Context(), actor, "", "Ab3dEf7")
	require.NoError(t, err)
	require.Equal(t, []any{"https://example.com/ü?a&b", 301, "Über uns", "Who we are", []string{"a", "b"}, "ann", true, false, int64(30), int64(4)},
		[]any{l.OriginalURL, l.RedirectStatus, l.Title, l.Description, l.Tags, l.CreatedBy, l.Flags&waypost.ForwardQuery != 0, l.Flags&waypost.ForwardPath != 0, l.Clicks, l.BotClicks})
	require.JSONEq(t, `{"n": 1}`, string(l.Metadata))
	require.True(t, l.LastAccessedAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
	_, err = service.Find(t.Context(), actor, "", "spring")
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err), "it is another workspace's")

	for words, want := range map[string]int{"": 2, "über": 1, "spring": 0} {
		page, err := service.List(t.Context(), actor, controlplane.ListRequest{LinkFilter: controlplane.LinkFilter{Words: words, Tags: []string{"b"}}, Order: controlplane.MostClicked, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Links, want, words)
	}
	tags, _, err := service.Tags(t.Context(), actor, "", "", 10)
	require.NoError(t, err)
	require.Equal(t, []controlplane.TagCount{{Tag: "a", Links: 1}, {Tag: "b", Links: 2}}, tags)

	total := func(actor controlplane.Actor) []int64 {
		t.Helper()
		w, err := service.WorkspaceStats(t.Context(), actor, controlplane.StatsQuery{Top: 10})
		require.NoError(t, err)
		return []int64{w.TotalClicks, w.TotalBots, w.Clicks, int64(len(w.Top.Links))}
	}
	require.Equal(t, []int64{42, 6, 0, 0}, total(actor), "deleted links included, and none of them by day")
	require.Equal(t, []int64{11, 1, 0, 0}, total(controlplane.Actor{Workspace: 1}))
	s, err := service.LinkStats(t.Context(), actor, "m.example.com", "sale", controlplane.StatsQuery{})
	require.NoError(t, err)
	require.Equal(t, []int64{5, 0}, []int64{s.TotalClicks, s.Clicks})

	// What that release had counted is known as counted, and what comes adds to it.
	sent := &waypost.ClickBatch{Node: "edge-1", Boot: waypost.BootID{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, Seq: 2, Exact: true, Profiles: people, Links: []waypost.LinkClicks{rows("Ab3dEf7", 1, 2, 3, at(12, 0))}}
	require.EqualValues(t, 3, ingest(t, db, sent).Clicks)
	require.Zero(t, ingest(t, db, sent).Clicks)
	for range 2 {
		require.Equal(t, []int64{45, 9, 3, 1}, total(actor))
		fold(t, db)
	}
	l, err = service.Find(t.Context(), actor, "", "Ab3dEf7")
	require.NoError(t, err)
	require.Equal(t, []int64{33, 7}, []int64{l.Clicks, l.BotClicks})

	forgetter := eraser
	forgetter.Workspace = 2
	f, err := db.ForgetClicks(t.Context(), forgetter, waypost.DefaultDomain, "Ab3dEf7")
	require.NoError(t, err)
	require.EqualValues(t, 33, f.Clicks)
	require.Equal(t, []int64{12, 2, 0, 0}, total(actor), "those from before are forgotten, too")
}
