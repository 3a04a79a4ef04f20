package postgres_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waypost/controlplane/postgres"
	"waypost/replication/replicationtest"
)

// changelog lets the suite for every replication source write to PostgreSQL.
type changelog struct {
	*postgres.DB
	hand *pgx.Conn
}

func TestPostgreSQLIsASource(t *testing.T) {
	replicationtest.TestSource(t, func(t *testing.T) replicationtest.Changelog {
		db, hand := open(t)
		return &changelog{db, hand}
	})
}

func (c *changelog) Put(t testing.TB, codes ...string) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), c.hand, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT changelog_begin()`); err != nil {
			return err
		}
		for i, code := range codes {
			_, err := tx.Exec(t.Context(), `
				INSERT INTO link (workspace_id, domain_id, code, original_url) VALUES (1, 1, $1, 'https://example.com/' || $2)
				ON CONFLICT (domain_id, code) DO UPDATE SET original_url = excluded.original_url || '?again'`, code, strconv.Itoa(i))
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

func (c *changelog) Delete(t testing.TB, code string) {
	t.Helper()
	_, err := c.hand.Exec(t.Context(), `UPDATE link SET deleted_at = now() WHERE code = $1`, code)
	require.NoError(t, err)
}

func (c *changelog) Forget(t testing.TB) {
	t.Helper()
	trim(t, c.hand, `seq < (SELECT seq FROM changelog_head)`)
}

func (c *changelog) Fork(t testing.TB) {
	t.Helper()
	_, err := c.hand.Exec(context.WithoutCancel(t.Context()), openEpoch)
	require.NoError(t, err)
}
