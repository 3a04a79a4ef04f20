package rulefile_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"waypost/internal/rulefile"
)

// validator returns a function that judges YAML by the schema.
func validator(t *testing.T) func(text []byte) error {
	t.Helper()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(rulefile.Schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("rules.json", schema))
	compiled, err := c.Compile("rules.json")
	require.NoError(t, err)
	return func(text []byte) error {
		object, err := yaml.YAMLToJSON(text)
		require.NoError(t, err)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(object))
		require.NoError(t, err)
		return compiled.Validate(value)
	}
}

func TestSchema_JudgesFiles(t *testing.T) {
	require.True(t, json.Valid(rulefile.Schema))
	judge := validator(t)
	f := full()
	require.NoError(t, judge(f.Format("spring")))
	const good = "rules:\n  - when:\n      - agent: [ios]\n    to: https://example.com/\n"
	require.NoError(t, judge([]byte(good)))
	for text, fault := range map[string]string{
		"rules:\n  - nam: x\n    to: https://example.com/\n":                                  "unknown field",
		"rules:\n  - name: x\n":                                                               "no action",
		"rules:\n  - to: https://example.com/\n    status: 404\n":                             "two actions",
		"rules:\n  - status: 500\n":                                                           "a status that no rule has",
		"rules:\n  - status: 404\n    when: [{}]\n":                                           "an empty condition",
		"rules:\n  - status: 404\n    when: [{agent: [ios], country: [DE]}]\n":                "two kinds in one condition",
		"rules:\n  - status: 404\n    when: [{agent: [fridge]}]\n":                            "an unknown agent",
		"rules:\n  - status: 404\n    when: [{country: [DEU]}]\n":                             "no country",
		"rules:\n  - status: 404\n    when: [{query: {key: a, equals: b, empty: true}}]\n":    "two modes of a parameter",
		"rules:\n  - status: 404\n    when: [{from: soon}]\n":                                 "no time",
		"rules:\n  - status: 404\n    when: [{week: {zone: Europe/Berlin}}]\n":                "no hours",
		"rules:\n  - split: {variants: [{weight: 1, to: https://example.com/}]}\n":            "one variant",
		"rules:\n  - split: {by: moon, variants: [{weight: 1, to: a}, {weight: 1, to: b}]}\n": "an unknown subject",
		"rules:\n  - split: {variants: [{weight: -1, to: a}, {weight: 1, to: b}]}\n":          "a negative weight",
		"valid_from: soon\n": "no time", "other: 1\n": "unknown field", "{}": "nothing",
	} {
		require.Error(t, judge([]byte(text)), fault)
	}
}
