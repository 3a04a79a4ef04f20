package httpapi_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocument_FollowsRecommendedRules checks the rules of OpenAPI linters that need no
// linter. With WAYPOST_OPENAPI_FILE it also writes the document, for make lint-openapi.
func TestDocument_FollowsRecommendedRules(t *testing.T) {
	a := start(t)
	text := a.get("/openapi.json").text
	if file := os.Getenv("WAYPOST_OPENAPI_FILE"); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	document := object(t, text)
	require.NotEmpty(t, document["info"].(map[string]any)["license"].(map[string]any)["identifier"])
	require.NotRegexp(t, `"enum":\[[^]]*null`, text, "oapi-codegen takes null for none of the values of an enum")
	server := document["servers"].([]any)[0].(map[string]any)["url"].(string)
	require.False(t, server == "" || strings.HasSuffix(server, "/"), server)
	schemes := document["components"].(map[string]any)["securitySchemes"].(map[string]any)

	ids := map[string]string{}
	for name, operation := range operations(t, document) {
		id := operation["operationId"].(string)
		require.Empty(t, ids[id], "%s has the id of %s", name, ids[id])
		ids[id] = name
		require.Contains(t, operation, "security", name)
		for _, alternative := range operation["security"].([]any) {
			for scheme := range alternative.(map[string]any) {
				require.Contains(t, schemes, scheme, name)
			}
		}
		good, refused := false, false
		for status := range operation["responses"].(map[string]any) {
			good = good || status[0] == '2' || status[0] == '3'
			refused = refused || status[0] == '4'
		}
		require.True(t, good && refused, "%s documents a success and a refusal", name)
		_, path, _ := strings.Cut(name, " ")
		parameters, _ := operation["parameters"].([]any)
		for _, p := range parameters {
			parameter := p.(map[string]any)
			require.NotEmpty(t, parameter["schema"], "%s: %s", name, parameter["name"])
			if parameter["in"] == "path" {
				require.Contains(t, path, "{"+parameter["name"].(string)+"}", name)
			}
		}
		require.Equal(t, strings.Count(path, "{"), countIn(parameters, "path"), "%s declares its path parameters", name)
	}
}

func countIn(parameters []any, in string) (n int) {
	for _, p := range parameters {
		if p.(map[string]any)["in"] == in {
			n++
		}
	}
	return n
}
