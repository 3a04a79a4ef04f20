package commands_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

func TestLists_CheckAndCompleteFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a truth":   {[]string{"links", "list", "--active", "maybe"}, `--active: "maybe" is neither true nor false`},
		"a time":    {[]string{"links", "export", "--created-after", "yesterday"}, `--created-after: "yesterday" is no time`},
		"a limit":   {[]string{"links", "search", "x", "--limit", "0"}, "--limit: 0 is not between 1 and 1000"},
		"no words":  {[]string{"links", "search"}, "WORDS is missing"},
		"a mapping": {[]string{"import", "x.csv", "--map", "url"}, `--map: "url" is not COLUMN=FIELD`},
	} {
		r := devtest.Run(t, nil, c.args...)
		require.Equal(t, 64, r.Code, "%s: %s", name, r.Stderr)
		require.Contains(t, r.Stderr, c.want, name)
	}
	r := devtest.Run(t, nil, "__complete", "links", "list", "--sort", "")
	require.Equal(t, []string{"-created", "created", "-clicks", "clicks"}, strings.Split(r.Stdout, "\n")[:4])
}
