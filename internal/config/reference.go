package config

import (
	"fmt"
	"strings"
)

// Reference is docs/configuration.md: every setting with its names and default,
// as Markdown. A test keeps the file equal to it.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Configuration

The settings come from one YAML file (` + "`--config FILE`" +
		`), from ` + "`WAYPOST_*`" + ` variables, which override it, and from flags, which override both.
An unknown key in the file is an error that shows its line, and an unknown ` + "`WAYPOST_*`" + ` variable is a warning.
` + "`--check-config`" + ` checks a configuration and changes nothing.
Lists are separated by commas in variables and flags.
Put a secret into a file if you can; a secret is never a flag.

This page is made from the program; ` + "`waypost COMMAND --help`" + ` says the same.
`)
	none := defaults(func(string) string { return "" })
	none.Dev.DataDir = "" // depends on the user
	section := ""
	for _, s := range settings() {
		if s.Section() != section {
			section = s.Section()
			fmt.Fprintf(&b, "\n## `%s`\n\n| key | variable | flag | default | |\n|---|---|---|---|---|\n", section)
		}
		flag := ""
		if s.Flag != "" {
			flag = "`--" + s.Flag + "`"
		}
		value := s.get(&none)
		switch value {
		case "", "0", "0s", "false":
			value = ""
		default:
			value = "`" + value + "`"
		}
		_, key, _ := strings.Cut(s.Path, ".")
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", key, s.Env, flag, value, s.Help)
	}
	return b.String()
}
