package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/rulefile"
)

// With WAYPOST_WRITE_SCHEMA=1 this test writes the schema of the declarations.
func TestRuleFile_SchemaIsThatOfTheDeclarations(t *testing.T) {
	a := start(t)
	schema, err := schemaOf([]byte(a.get("/openapi.json").text))
	require.NoError(t, err)
	if os.Getenv("WAYPOST_WRITE_SCHEMA") != "" {
		require.NoError(t, os.WriteFile("../../internal/rulefile/schema.json", schema, 0o600))
		return
	}
	require.Equal(t, string(schema), string(rulefile.Schema), "run this test with WAYPOST_WRITE_SCHEMA=1")
}

// ruleDefinitions are the parts of the API's document that a file consists of.
var ruleDefinitions = []string{"Rule", "Condition", "Parameter", "Schedule", "Split", "Variant"}

// schemaOf makes the schema of a file from the OpenAPI document, and adds which fields
// go together.
func schemaOf(openapi []byte) ([]byte, error) {
	var document struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openapi, &document); err != nil {
		return nil, err
	}
	all := document.Components.Schemas
	link, ok := all["NewLink"]["properties"].(map[string]any)
	if !ok {
		return nil, errors.New("the document has no NewLink")
	}
	defs := map[string]any{}
	for _, name := range ruleDefinitions {
		if all[name] == nil {
			return nil, fmt.Errorf("the document has no %s", name)
		}
		defs[name] = all[name]
	}
	all["Rule"]["oneOf"] = oneField("to", "split", "status")
	kinds := oneField("agent", "country", "city", "language", "address", "query", "week")
	all["Condition"]["oneOf"] = append(kinds, map[string]any{"anyOf": oneField("from", "until")})
	all["Parameter"]["not"] = map[string]any{"required": []string{"equals", "empty"}}
	schema := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Rules of a Waypost link", "type": "object",
		"additionalProperties": false, "minProperties": 1, "$defs": defs,
		"properties": map[string]any{
			"state":      map[string]any{"type": "string", "description": "Entity tag of the link that the file was written for. Left out: any."},
			"valid_from": link["valid_from"], "expired_url": link["expired_url"], "rules": link["rules"],
		},
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("#/components/schemas/"), []byte("#/$defs/")), nil
}

// oneField returns schemas each of which requires a field.
func oneField(fields ...string) (all []any) {
	for _, field := range fields {
		all = append(all, map[string]any{"required": []string{field}})
	}
	return all
}
