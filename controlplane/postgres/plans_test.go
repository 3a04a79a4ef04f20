package postgres_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// PostgreSQL's defaults compile a statement whose cost is above jit_above_cost, which
// takes hundreds of milliseconds at each execution.
func TestHead_IsCheapAndNeverCompiled(t *testing.T) {
	db, hand := open(t)
	var compiles bool
	require.NoError(t, hand.QueryRow(t.Context(), `SELECT current_setting('jit')::bool`).Scan(&compiles))
	require.True(t, compiles, "the test runs on PostgreSQL's defaults")

	text, err := db.ExplainHead(t.Context())
	require.NoError(t, err)
	var plans []struct {
		Plan struct {
			Cost float64 `json:"Total Cost"`
		}
		JIT json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(text), &plans))
	require.Less(t, plans[0].Plan.Cost, 100.0, text)
	require.Nil(t, plans[0].JIT)
	compiling, err := db.Unscoped(t.Context(), `SELECT count(*) WHERE current_setting('jit')::bool`)
	require.NoError(t, err)
	require.Zero(t, compiling, "the pool turns JIT off for all statements")
}
