package postgres_test

import (
	"context"
	"fmt"
	"os"
	"testing"

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

// openEpoch is the statement that opens an epoch as if a commit had been seen that
// the database does not know.
const openEpoch = `SELECT opened FROM changelog_head, changelog_open_epoch('test', epoch, epoch, NULL, seq + 1, 0, jsonb_build_object('at',
	extract(epoch FROM clock_timestamp()), 'ranges', '[]'::jsonb), 1000, 0)`

func number(t *testing.T, hand *pgx.Conn, sql string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, hand.QueryRow(t.Context(), sql, args...).Scan(&n), sql)
	return n
}
