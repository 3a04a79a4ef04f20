package postgres_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/controlplane/postgres"
	"waypost/migrations"
)

// A migration that was interrupted goes on.
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
