package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRetention_NamesTablesOfTheSchema(t *testing.T) {
	db, hand := open(t)
	for _, table := range db.RetainedTables() {
		var there bool
		require.NoError(t, hand.QueryRow(t.Context(), `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there))
		require.True(t, there, table)
	}
}
