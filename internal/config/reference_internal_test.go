package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const referencePage = "../../docs/configuration.md"

// With WAYPOST_UPDATE_DOCS=1 the page is written instead.
func TestReference_IsThePageOfTheDocumentation(t *testing.T) {
	if os.Getenv("WAYPOST_UPDATE_DOCS") != "" {
		require.NoError(t, os.WriteFile(referencePage, []byte(reference()), 0o644))
	}
	page, err := os.ReadFile(referencePage)
	require.NoError(t, err)
	require.Equal(t, reference(), string(page), "run: WAYPOST_UPDATE_DOCS=1 go test ./internal/config")
}

// reference returns docs/configuration.md: every setting with its names and default, as
// Markdown.
func reference() string {
	var b strings.Builder
	b.WriteString(`# Configuration

The settings come from one YAML file (` + "`--config FILE`" +
		`), from ` + "`WAYPOST_*`" + ` variables, which override it, and from flags, which override both.
An unknown key in the file is an error that shows its line, and an unknown ` + "`WAYPOST_*`" + ` variable is a warning.
` + "`--check-config`" + ` checks a configuration and changes nothing.
Lists are separated by commas in variables and flags.
Each secret, marked so, may stand in a file, and better does: append ` + "`_file`" + ` to the key or ` +
		"`_FILE`" + ` to the variable, and give the file's name.
A secret that is given nowhere is read from ` + "`secrets/`" + ` next to the YAML file, if there is the file ` + "`database-url`, " +
		"`cluster-secret`, `edge-token` or `gossip-key`" + ` and the user may read it.

This page is made from the program; ` + "`waypost COMMAND --help`" + ` says the same.
`)
	none := defaults(func(string) string { return "" })
	none.Dev.DataDir = "" // depends on the user
	section := ""
	for i, s := range settings() {
		if s.secret != "" {
			continue
		}
		if s.Section() != section {
			section = s.Section()
			fmt.Fprintf(&b, "\n## `%s`\n\n| key | variable | flag | default | |\n|---|---|---|---|---|\n", section)
		}
		var flags []string
		if s.Flag != "" {
			flags = append(flags, "`--"+s.Flag+"`")
		}
		mark := ""
		if s.kind == reflect.TypeFor[Secret]() {
			mark, flags = " (secret)", append(flags, "`--"+settings()[i+1].Flag+"`")
		}
		value := s.get(&none)
		switch value {
		case "", "0", "0s", "false":
			value = ""
		default:
			value = "`" + value + "`"
		}
		_, key, _ := strings.Cut(s.Path, ".")
		fmt.Fprintf(&b, "| `%s`%s | `%s` | %s | %s | %s |\n", key, mark, s.Env, strings.Join(flags, ", "), value, s.Help)
	}
	return b.String()
}
