package postgres_test

import (
	"context"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
	"waypost/internal/pgserver/pgservertest"
	"waypost/migrations"
)

// as is a database's URL for another login.
func as(login, url string) string { return strings.Replace(url, "waypost@", login+"@", 1) }

// twoTenants makes a link in the default workspace and one in another.
func twoTenants(t *testing.T, db *postgres.DB, hand *pgx.Conn) {
	t.Helper()
	exec(t, hand, `INSERT INTO workspace (id, name, slug) VALUES (7, 'Other', 'other')`)
	theirs := link("theirs")
	theirs.Workspace = 7
	insert(t, db, link("mine"))
	insert(t, db, theirs)
}

func TestRowSecurityBindsALoginThatIsASuperuser(t *testing.T) {
	url := as("postgres", cluster.Database(t))
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 1})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	twoTenants(t, db, psql(t, url))

	for ws, want := range map[waypost.WorkspaceID]int64{1: 1, 7: 1, 8: 0} {
		n, err := db.CountIn(t.Context(), strconv.Itoa(int(ws)), `SELECT count(*) FROM link`)
		require.NoError(t, err)
		require.Equal(t, want, n, "workspace %d", ws)
	}
	_, err = db.CountIn(t.Context(), "1", `INSERT INTO link (workspace_id, domain_id, code, original_url)
		VALUES (7, 1, 'forged', 'https://example.net/') RETURNING id`)
	require.ErrorContains(t, err, "row-level security")
}

func TestAPooledConnectionKeepsNothingOfATransaction(t *testing.T) {
	db, hand := open(t, func(c *postgres.Config) { c.MaxConns = 1 })
	twoTenants(t, db, hand)
	n, err := db.CountIn(t.Context(), "1,7", `SELECT count(*) FROM link`)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)

	n, err = db.CountIn(t.Context(), "", `SELECT count(*) FROM link`)
	require.NoError(t, err)
	require.Zero(t, n, "a tenant's transaction that names no workspace sees nothing, though the setting reads '' by now")
	_, err = db.Unscoped(t.Context(), `SELECT count(*) FROM link`)
	require.ErrorContains(t, err, "permission denied", "a statement that takes on no role may do nothing")
	_, err = db.CountIn(t.Context(), "1", `SELECT count(*) FROM changelog`)
	require.ErrorContains(t, err, "permission denied")
	_, err = db.CountIn(t.Context(), "1", `WITH gone AS (DELETE FROM audit RETURNING 1) SELECT count(*) FROM gone`)
	require.ErrorContains(t, err, "permission denied", "nobody takes back what the audit log says")
}

func TestTheLoginItselfSeesNoTenantsRows(t *testing.T) {
	url := cluster.Database(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	insert(t, db, link("mine"))
	login, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer login.Close(context.Background())
	for _, table := range []string{"link", "api_key", "changelog", "workspace"} {
		var n int
		require.NoError(t, login.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
		require.Zero(t, n, table)
	}
}

func TestTheBackupsRoleDumpsTheRowsOfAllTenants(t *testing.T) {
	db, hand := open(t)
	twoTenants(t, db, hand)
	require.NoError(t, db.MaintainOnce(t.Context()), "which makes partitions")
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skip("pg_dump is not installed")
	}
	exec(t, hand, `DO $$ BEGIN CREATE ROLE nightly LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	exec(t, hand, `GRANT waypost_backup TO nightly`)
	url := as("nightly", strings.Replace(pgservertest.Plain(hand.Config().ConnString()), "waypost@", "nightly@", 1))
	out, err := osexec.CommandContext(t.Context(), found[len(found)-1], "--role=waypost_backup", "--enable-row-security", "--data-only",
		"--dbname", url).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, code := range []string{"https://example.com/mine", "https://example.com/theirs"} {
		require.GreaterOrEqual(t, strings.Count(string(out), code), 2, "%s is in the links and in the changelog", code)
	}
}

func TestMigrationsOfSeveralDatabasesMakeTheirRolesAtTheSameTime(t *testing.T) {
	server := cluster.Server(t)
	hand := psql(t, cluster.Database(t))
	const fresh = "fresh_login"
	exec(t, hand, `CREATE ROLE `+fresh+` LOGIN CREATEROLE`)
	var urls []string
	for _, name := range []string{"roles_1", "roles_2", "roles_3", "roles_4"} {
		exec(t, hand, `CREATE DATABASE `+name+` OWNER `+fresh)
		urls = append(urls, as(fresh, server.DatabaseURL(name)))
	}
	errs := make([]error, len(urls))
	var wg sync.WaitGroup
	for i, url := range urls {
		wg.Go(func() { errs[i] = migrations.Up(t.Context(), url) })
	}
	wg.Wait()
	for i := range errs {
		require.NoError(t, errs[i])
		require.NoError(t, migrations.Up(t.Context(), urls[i]), "again, which changes nothing")
		require.NoError(t, server.DropDatabase(t.Context(), "roles_"+strconv.Itoa(i+1)))
	}
}

func TestALoginWithoutARightToTheRolesIsToldWhatToDoBeforeAnythingChanges(t *testing.T) {
	server := cluster.Server(t)
	hand := psql(t, cluster.Database(t))
	exec(t, hand, `CREATE ROLE plain_login LOGIN`)
	exec(t, hand, `CREATE DATABASE plain OWNER plain_login`)
	t.Cleanup(func() { require.NoError(t, server.DropDatabase(context.Background(), "plain")) })
	url := as("plain_login", server.DatabaseURL("plain"))
	require.ErrorIs(t, migrations.Up(t.Context(), url), migrations.ErrRoles)
	_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.ErrorContains(t, err, "schema version 0")

	script, err := migrations.Roles("plain_login")
	require.NoError(t, err)
	exec(t, hand, script)
	require.NoError(t, migrations.Up(t.Context(), url))
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgservertest.Patient(url)})
	require.NoError(t, err)
	defer db.Close()
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	insert(t, db, link("works"))
	_, err = db.CreateKey(t.Context(), "default", "k", []string{"admin"})
	require.NoError(t, err)
	_, err = migrations.Roles(`x'; DROP ROLE y`)
	require.Error(t, err)
}

func TestUp_NeedsTheRoleOfSearch(t *testing.T) {
	server := cluster.Server(t)
	hand := psql(t, cluster.Database(t))
	exec(t, hand, `CREATE ROLE tidy_login LOGIN`)
	exec(t, hand, `CREATE DATABASE tidy OWNER tidy_login`)
	t.Cleanup(func() { require.NoError(t, server.DropDatabase(context.Background(), "tidy")) })
	url := as("tidy_login", server.DatabaseURL("tidy"))
	script, err := migrations.Roles("tidy_login")
	require.NoError(t, err)
	exec(t, hand, script)
	exec(t, hand, `REVOKE waypost_search FROM tidy_login`)
	require.ErrorIs(t, migrations.Up(t.Context(), url), migrations.ErrRoles)
	exec(t, hand, script)
	require.NoError(t, migrations.Up(t.Context(), url))
}

func TestALoginThatDoesNotOwnTheDatabaseIsToldSo(t *testing.T) {
	server := cluster.Server(t)
	hand := psql(t, cluster.Database(t))
	exec(t, hand, `CREATE ROLE stranger LOGIN CREATEROLE`)
	exec(t, hand, `CREATE DATABASE not_theirs`)
	t.Cleanup(func() { require.NoError(t, server.DropDatabase(context.Background(), "not_theirs")) })
	url := as("stranger", server.DatabaseURL("not_theirs"))
	require.ErrorContains(t, migrations.Up(t.Context(), url), "OWNER TO")
	exec(t, hand, `ALTER DATABASE not_theirs OWNER TO stranger`)
	require.NoError(t, migrations.Up(t.Context(), url))
}

func TestUp_RefusesADatabaseThatKeepsBytes(t *testing.T) {
	server := cluster.Server(t)
	hand := psql(t, cluster.Database(t))
	exec(t, hand, `CREATE DATABASE of_bytes OWNER waypost ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0`)
	t.Cleanup(func() { require.NoError(t, server.DropDatabase(context.Background(), "of_bytes")) })
	require.ErrorContains(t, migrations.Up(t.Context(), server.DatabaseURL("of_bytes")), "ENCODING 'UTF8'")
}

func TestEveryTableOfTenantsIsProtected(t *testing.T) {
	_, hand := open(t)
	rows, err := hand.Query(t.Context(), `
		SELECT c.relname::text FROM pg_class c
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT (
			c.relrowsecurity AND c.relforcerowsecurity
			AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'backup')
			AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname IN ('tenant', 'system') AND p.polroles = '{0}'))
		  AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname IN ('workspace_id', 'payload'))`)
	require.NoError(t, err)
	bare, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, bare, "tables with rows of tenants need ENABLE and FORCE ROW LEVEL SECURITY and the policies tenant or system")

	var e *pgconn.PgError
	_, err = hand.Exec(t.Context(), `SET ROLE waypost_nobody; SELECT changelog_begin()`)
	require.ErrorAs(t, err, &e)
	require.Equal(t, "42501", e.Code, "nobody but writers takes a turn at the head")
}

func TestTablesAndFunctionsOfLaterMigrationsGetWhatTheyNeed(t *testing.T) {
	url := cluster.Database(t)
	login, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer login.Close(context.Background())
	exec(t, login, `CREATE TABLE later (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workspace_id bigint NOT NULL)`)
	exec(t, login, `ALTER TABLE later ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`)
	exec(t, login, `CREATE POLICY tenant ON later USING (workspace_id = ANY (waypost_workspaces()))`)
	exec(t, login, `CREATE POLICY system ON later USING (waypost_system())`)
	exec(t, login, `ALTER FUNCTION changelog_after_link() SECURITY INVOKER`) // as CREATE OR REPLACE leaves it
	require.NoError(t, migrations.Up(t.Context(), url))

	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	t.Cleanup(db.Close)
	_, err = db.EnsureCluster(t.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(t, err)
	insert(t, db, link("works"))
	_, err = db.CountIn(t.Context(), "7", `INSERT INTO later (workspace_id) VALUES (7) RETURNING id`)
	require.NoError(t, err)
	_, err = db.CountIn(t.Context(), "7", `INSERT INTO later (workspace_id) VALUES (8) RETURNING id`)
	require.ErrorContains(t, err, "row-level security")
	n, err := db.CountIn(t.Context(), "8", `SELECT count(*) FROM later`)
	require.NoError(t, err)
	require.Zero(t, n)
	hand := psql(t, url)
	for role, want := range map[string]int64{"waypost_operator": 1, "waypost_backup": 1, "waypost_tenant": 0} {
		exec(t, hand, `SET ROLE `+role)
		require.Equal(t, want, number(t, hand, `SELECT count(*) FROM later`), role)
		exec(t, hand, `RESET ROLE`)
	}
}

func TestPool_OneWorkspaceLeavesConnectionsToOthers(t *testing.T) {
	db, hand := open(t, func(c *postgres.Config) {
		c.MaxConns = 10
		c.URL += "&lock_timeout=60000&statement_timeout=60000"
	})
	twoTenants(t, db, hand)
	by := controlplane.Actor{Workspace: 7}
	theirs, err := db.Link(t.Context(), 7, 1, "theirs")
	require.NoError(t, err)
	at := controlplane.VersionOf(&theirs)
	tx, err := hand.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, 'early', 'https://example.net/')`)
	var updates errgroup.Group
	for range 5 {
		updates.Go(func() error {
			l := theirs
			_, _, err := db.UpdateLink(t.Context(), by, at, &l, nil)
			return err
		})
	}
	require.Eventually(t, func() bool {
		exec(t, tx, `SELECT pg_stat_clear_snapshot()`)
		return number(t, hand, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 5
	}, waitLimit, time.Millisecond)

	yes := true
	done, cancel := context.WithCancel(t.Context())
	cancel()
	const busy = "too many requests of this workspace"
	for name, f := range map[string]func() error{
		"a list": func() error {
			_, err := db.ListLinks(done, 7, controlplane.LinkFilter{}, time.Now(), controlplane.NewestFirst, controlplane.ListPlace{}, 1)
			return err
		},
		"a change":             func() error { _, _, err := db.UpdateLink(done, by, at, &theirs, nil); return err },
		"a deletion":           func() error { _, err := db.DeleteLink(done, by, 1, "theirs"); return err },
		"a restoration":        func() error { _, _, err := db.RestoreLink(done, by, at, &theirs); return err },
		"a dry run":            func() error { _, err := db.TryLinks(done, insertions(&theirs)); return err },
		"duplicates":           func() error { _, _, err := db.Duplicates(done, 7, nil); return err },
		"links by name":        func() error { _, _, err := db.Named(done, 7, nil); return err },
		"the top links":        func() error { _, _, err := db.TopLinks(done, 7, 0, 1, 1); return err },
		"a deletion of clicks": func() error { _, err := db.ForgetClicks(done, by, 1, "theirs"); return err },
		"a domain": func() error {
			_, _, err := db.CreateDomain(done, by, waypost.Domain{Workspace: 7, Host: "a.example"}, true)
			return err
		},
		"targets of a domain": func() error { _, _, err := db.SetDomain(done, by, 1, api.DomainChange{}); return err },
		"settings": func() error {
			_, err := db.ChangeWorkspace(done, by, 7, api.WorkspaceChange{Settings: &api.SettingsChange{UTM: &yes}})
			return err
		},
		"a user":           func() error { _, _, err := db.AddMember(done, by, 7, controlplane.NewMember{}); return err },
		"a count of keys":  func() error { _, err := db.CountHeld(done, 7); return err },
		"reserved keys":    func() error { _, err := db.ReserveKeys(done, 7, "s", 0, nil); return err },
		"keys that return": func() error { _, err := db.ReturnKeys(done, 7, "s", nil); return err },
		"a budget":         func() error { _, err := db.LinkBudget(done, 7, 1); return err },
	} {
		err := f()
		require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err), name)
		require.Contains(t, waypost.MessageOf(err), busy, name)
	}
	_, _, err = db.InsertLinks(done, 0, insertions(&theirs))
	require.Error(t, err)
	require.NotContains(t, err.Error(), busy, "creates share few connections, and wait for none")
	_, err = db.Link(t.Context(), 1, 1, "mine")
	require.NoError(t, err)
	_, err = db.Head(t.Context())
	require.NoError(t, err)

	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, updates.Wait())
	_, err = db.Link(t.Context(), 7, 1, "theirs")
	require.NoError(t, err)
}
