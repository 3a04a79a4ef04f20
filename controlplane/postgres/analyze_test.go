package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnalyzeNew_LookupsAfterAnImportReadOneLink plans a lookup by code as PostgreSQL
// does with a table of which it has no statistics, and then with the first ones.
func TestAnalyzeNew_LookupsAfterAnImportReadOneLink(t *testing.T) {
	db, hand := open(t)
	exec(t, hand, `ALTER TABLE link SET (autovacuum_enabled = off)`)
	exec(t, hand, `INSERT INTO link (workspace_id, domain_id, code, original_url)
		SELECT 1, 1, 'imported' || n, 'https://example.com/' || n FROM generate_series(1, 20000) n`)
	planOf := func(sql string) (lines string) {
		rows, err := hand.Query(t.Context(), `EXPLAIN `+sql)
		require.NoError(t, err)
		for rows.Next() {
			var line string
			require.NoError(t, rows.Scan(&line))
			lines += line + "\n"
		}
		require.NoError(t, rows.Err())
		return lines
	}
	plan := func() string {
		return planOf(`SELECT id FROM link WHERE workspace_id = 1 AND domain_id = 1 AND code = 'imported7' AND deleted_at IS NULL`)
	}
	const readsTheWorkspace = "Index Cond: (workspace_id = 1)"
	require.Contains(t, plan(), readsTheWorkspace, "otherwise PostgreSQL needs no help any more")
	require.NoError(t, db.AnalyzeNewOnce(t.Context()))
	require.NotContains(t, plan(), readsTheWorkspace)
	require.Contains(t, plan(), "using link_code on link")

	analyzed := func() (at string) {
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT last_analyze::text FROM pg_stat_user_tables WHERE relname = 'link'`).Scan(&at))
		return at
	}
	exec(t, hand, `SELECT pg_stat_clear_snapshot()`)
	first := analyzed()
	require.NoError(t, db.AnalyzeNewOnce(t.Context()))
	exec(t, hand, `SELECT pg_stat_clear_snapshot()`)
	require.Equal(t, first, analyzed(), "what has statistics is left to PostgreSQL")

	exec(t, hand, `VACUUM link`)
	require.Contains(t, planOf(`SELECT id, workspace_id FROM link WHERE domain_id = 1 AND code = 'imported7' LIMIT 1`), "Index Only Scan using link_code",
		"clicks need no more than the index")
}
