package postgres_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/controlplane/postgres"
	"waypost/migrations"
)

func TestSchema_OfAnotherBuildIsRefused(t *testing.T) {
	own := func(t *testing.T, url string) (sums string) {
		t.Helper()
		require.NoError(t, psql(t, url).QueryRow(t.Context(), migrations.SelectChecksums).Scan(&sums))
		return sums
	}
	newest := strconv.Itoa(migrations.Newest)
	for name, other := range map[string]func(sums string) string{
		"no checksums":          func(string) string { return "" },
		"no readable checksums": func(string) string { return "it''s mine" },
		"another first file":    func(s string) string { return strings.Replace(s, "1:", "1:0", 1) },
		"another last file":     func(s string) string { return strings.Replace(s, newest+":", newest+":0", 1) },
		"one file less":         func(s string) string { return s[:strings.LastIndex(s, " ")] },
		"swapped files": func(s string) string {
			return strings.NewReplacer(" 4:", " 5:", " 5:", " 4:").Replace(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := cluster.Database(t)
			hand := psql(t, url)
			good := own(t, url)
			exec(t, hand, `COMMENT ON TABLE goose_db_version IS '`+other(good)+`'`)
			_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			for _, err := range []error{err, migrations.Up(t.Context(), url)} {
				require.ErrorIs(t, err, migrations.ErrOtherSchema)
				require.ErrorContains(t, err, "waypost links export")
				require.ErrorContains(t, err, "schema version "+newest)
			}
			exec(t, hand, `COMMENT ON TABLE goose_db_version IS '`+good+`'`)
			require.NoError(t, migrations.Up(t.Context(), url))
			db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
			require.NoError(t, err)
			db.Close()
		})
	}
	t.Run("an older version", func(t *testing.T) {
		url := cluster.Database(t)
		hand := psql(t, url)
		exec(t, hand, `DELETE FROM goose_db_version WHERE version_id > 3`)
		exec(t, hand, `COMMENT ON TABLE goose_db_version IS '`+strings.Replace(own(t, url), " 2:", " 2:0", 1)+`'`)
		require.ErrorIs(t, migrations.Up(t.Context(), url), migrations.ErrOtherSchema)
	})
}

// A migration that was interrupted goes on, and a file that was not applied may have been
// another one.
func TestSchema_InterruptedMigrationGoesOn(t *testing.T) {
	server := cluster.Server(t)
	hand := psql(t, cluster.Database(t))
	exec(t, hand, `CREATE ROLE interrupted_login LOGIN CREATEROLE`)
	exec(t, hand, `CREATE DATABASE interrupted OWNER interrupted_login`)
	t.Cleanup(func() { require.NoError(t, server.DropDatabase(context.Background(), "interrupted")) })
	url := as("interrupted_login", server.DatabaseURL("interrupted"))
	login, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer login.Close(context.Background())
	exec(t, login, `CREATE TABLE link_block (id integer)`) // in the way of the last file
	require.ErrorContains(t, migrations.Up(t.Context(), url), "migrate the database")
	exec(t, login, `DROP TABLE link_block`)
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = migrations.Up(t.Context(), url) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	require.NoError(t, err)
	db.Close()
}
