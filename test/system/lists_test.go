package system_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

func TestLinksAreFoundByWordsTagsAndStateFromTheCommandLine(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{Edges: "us-east-1=127.0.0.1:0"})
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	file := filepath.Join(t.TempDir(), "links.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`
{"original_url": "https://example.com/1", "custom_code": "spring-1", "title": "Spring sale", "tags": ["sale", "spring"]}
{"original_url": "https://example.com/2", "custom_code": "autumn-1", "title": "Autumn sale", "tags": ["sale"], "metadata": {"k": 1}}
{"original_url": "https://example.com/3", "custom_code": "plain-1"}
`), 0o600))
	r := devtest.Run(t, env, "links", "import", file)
	require.Zero(t, r.Code, r.Stderr)
	require.Contains(t, r.Stdout, "3 of 3 rows created")

	codes := func(args ...string) (codes []string) {
		t.Helper()
		r := devtest.Run(t, env, slices.Insert(args, 2, "--output", "json")...)
		require.Zero(t, r.Code, r.Stderr)
		var page struct {
			URLs []struct {
				Code string `json:"short_code"`
			} `json:"urls"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.Stdout), &page), r.Stdout)
		for _, l := range page.URLs {
			codes = append(codes, l.Code)
		}
		return codes
	}
	require.Equal(t, []string{"plain-1", "autumn-1", "spring-1"}, codes("links", "list"))
	require.Equal(t, []string{"spring-1", "autumn-1", "plain-1"}, codes("links", "list", "--sort", "created"))
	require.Equal(t, []string{"plain-1", "autumn-1"}, codes("links", "list", "--limit", "2"))
	require.Equal(t, []string{"autumn-1", "spring-1"}, codes("links", "search", "SALE"))
	require.Equal(t, []string{"spring-1"}, codes("links", "search", "sale", "spring"))
	require.Equal(t, []string{"autumn-1"}, codes("links", "search", "--", "sale", "-spring"))
	require.Equal(t, []string{"spring-1"}, codes("links", "list", "--tag", "sale", "--tag", "spring"))
	require.Empty(t, codes("links", "list", "--active", "false"))
	require.Empty(t, codes("links", "list", "--created-before", "2020-01-01"))
	require.Len(t, codes("links", "list", "--created-after", "2020-01-01T00:00:00Z", "--expired", "false"), 3)
	require.Empty(t, codes("links", "list", "--domain", "unknown.example"))

	r = devtest.Run(t, env, "links", "search", "nothing-like-it")
	require.Equal(t, "no links\n", r.Stdout, r.Stderr)
	r = devtest.Run(t, env, "links", "tags", "--prefix", "none")
	require.Equal(t, "no tags\n", r.Stdout, r.Stderr)

	r = devtest.Run(t, env, "links", "tags")
	require.Equal(t, "LINKS  TAG\n2      sale\n1      spring\n", r.Stdout, r.Stderr)
	r = devtest.Run(t, env, "links", "tags", "--prefix", "sp", "--output", "json")
	require.JSONEq(t, `{"tags": [{"tag": "spring", "links": 1}]}`, r.Stdout)

	r = devtest.Run(t, env, "links", "export", "--format", "jsonl", "--tag", "sale")
	require.Zero(t, r.Code, r.Stderr)
	require.Equal(t, 2, strings.Count(r.Stdout, "\n"))
	require.Contains(t, r.Stdout, `"metadata":{"k":1}`)
	s.Stop()
}

func TestFlagsOfListsAreCheckedAndCompleted(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a truth":              {[]string{"links", "list", "--active", "maybe"}, `--active: "maybe" is neither true nor false`},
		"a time":               {[]string{"links", "export", "--created-after", "yesterday"}, `--created-after: "yesterday" is no time`},
		"a limit":              {[]string{"links", "search", "x", "--limit", "0"}, "--limit: 0 is not between 1 and 1000"},
		"no words":             {[]string{"links", "search"}, "WORDS is missing"},
		"a format":             {[]string{"links", "import", "x.csv", "--format", "xml"}, `--format: "xml" is neither csv nor jsonl`},
		"too many at the time": {[]string{"links", "import", "x.csv", "--parallel", "17"}, "--parallel: 17 is not between 1 and 16"},
	} {
		r := devtest.Run(t, nil, c.args...)
		require.Equal(t, 2, r.Code, "%s: %s", name, r.Stderr)
		require.Contains(t, r.Stderr, c.want, name)
	}
	r := devtest.Run(t, nil, "__complete", "links", "list", "--sort", "")
	require.Equal(t, []string{"-created", "created", "-clicks", "clicks"}, strings.Split(r.Stdout, "\n")[:4])
}
