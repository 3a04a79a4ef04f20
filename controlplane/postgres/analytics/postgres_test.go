package analytics_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
)

var cluster = &pgservertest.Cluster{Prepare: migrations.Up}

const (
	waitLimit = time.Minute
	pause     = 20 * time.Millisecond
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// open returns a database of the test's own with the cluster row in place, and a plain
// connection to it, as an operator's psql would have.
func open(t testing.TB, change ...func(*postgres.Config)) (*postgres.DB, *pgx.Conn) {
	t.Helper()
	cfg := postgres.Config{URL: cluster.Database(t), HearTimeout: waitLimit}
	for _, f := range change {
		f(&cfg)
	}
	db, err := postgres.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	return db, psql(t, cfg.URL)
}

// psql connects as an operator by hand would, as superuser.
func psql(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	cfg.User = "postgres"
	cfg.RuntimeParams["default_transaction_isolation"] = "read committed"
	cfg.RuntimeParams["client_encoding"] = "UTF8"
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

func exec(t testing.TB, conn interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, sql string,
) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err, sql)
}

func link(code string) *waypost.Link {
	return &waypost.Link{
		Workspace: waypost.DefaultWorkspace, Domain: waypost.DefaultDomain, Code: waypost.Code(code), Custom: true,
		OriginalURL: "https://example.com/" + code, Location: "https://example.com/" + code, RedirectStatus: 302,
	}
}

func links(n int) []*waypost.Link {
	ls := make([]*waypost.Link, n)
	for i := range ls {
		ls[i] = link(fmt.Sprintf("link-%d", i))
	}
	return ls
}

func insert(t *testing.T, db *postgres.DB, ls ...*waypost.Link) waypost.Position {
	t.Helper()
	placed, at, err := db.InsertLinks(t.Context(), 0, insertions(ls...))
	require.NoError(t, err)
	for i := range placed {
		require.Equal(t, controlplane.Placed, placed[i])
	}
	return at
}

func insertions(ls ...*waypost.Link) []controlplane.Insertion {
	all := make([]controlplane.Insertion, len(ls))
	for i, l := range ls {
		all[i].Link = l
	}
	return all
}

func number(t *testing.T, hand *pgx.Conn, sql string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, hand.QueryRow(t.Context(), sql, args...).Scan(&n), sql)
	return n
}

func textOf(t *testing.T, hand *pgx.Conn, sql string) (s string) {
	t.Helper()
	require.NoError(t, hand.QueryRow(t.Context(), sql).Scan(&s), sql)
	return s
}

// waiting returns once some session waits for a lock.
func waiting(t *testing.T, db *postgres.DB, hand *pgx.Conn) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		// A transaction keeps the first answer of pg_stat_activity until it is cleared.
		exec(t, hand, `SELECT pg_stat_clear_snapshot()`)
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock'`).Scan(&n))
		_, err := db.Head(t.Context())
		require.NoError(t, err)
		return n > 0
	}, time.Minute, time.Millisecond, "no session waits for a lock")
}

// many makes links in one statement by hand.
func many(t *testing.T, hand *pgx.Conn, n int) {
	t.Helper()
	exec(t, hand, fmt.Sprintf(`
		INSERT INTO link (workspace_id, domain_id, code, original_url, title, tags, active, expires_at, created_at)
		SELECT 1, CASE WHEN i %% 100 = 0 THEN 2 ELSE 1 END, 'many-' || i, 'https://example.com/' || i,
		       CASE WHEN i %% 2 = 0 THEN 'common' || CASE WHEN i %% 1000 = 0 THEN ' seldom' ELSE '' END ELSE '' END,
		       CASE WHEN i %% 500 = 0 THEN '{rare,all}'::text[] WHEN i %% 2 = 0 THEN '{all}' ELSE '{}' END,
		       i %% 200 <> 0, CASE WHEN i %% 300 = 0 THEN timestamptz '2029-01-01' END, timestamptz '2029-06-01' + i * interval '1 minute'
		FROM generate_series(1, %d) i`, n))
	exec(t, hand, `INSERT INTO link_click (link_id, workspace_id, clicks, last_accessed_at) SELECT id, 1, 1 + id % 1000, now() FROM link
		WHERE id % 3 = 0`)
	exec(t, hand, `VACUUM ANALYZE link, link_click, link_tag`)
}
