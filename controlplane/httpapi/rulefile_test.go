package httpapi_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/rulefile"
)

// With WAYPOST_WRITE_SCHEMA=1 this test writes the schema of the declarations.
func TestRuleFile_SchemaIsThatOfTheDeclarations(t *testing.T) {
	a := start(t)
	schema, err := rulefile.SchemaOf([]byte(a.get("/openapi.json").text))
	require.NoError(t, err)
	if os.Getenv("WAYPOST_WRITE_SCHEMA") != "" {
		require.NoError(t, os.WriteFile("../../internal/rulefile/schema.json", schema, 0o600))
		return
	}
	require.Equal(t, string(schema), string(rulefile.Schema), "run this test with WAYPOST_WRITE_SCHEMA=1")
}
