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

// The commands of these tests show everything, so no other test may make links or clicks
// in the system.
func TestCommands_ShowLinksAndStatistics(t *testing.T) {
	t.Parallel()
	s := devtest.Start(t, devtest.Config{})
	t.Run("links by words, tags and state", func(t *testing.T) { requireLists(t, s) })
	t.Run("statistics", func(t *testing.T) { requireStatistics(t, s) })
	t.Run("unknown addresses", func(t *testing.T) { requireUnknown(t, s) })
	s.Stop()
}

func requireLists(t *testing.T, s *devtest.System) {
	t.Helper()
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	file := filepath.Join(t.TempDir(), "links.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`
{"original_url": "https://example.com/1", "custom_code": "spring-1", "title": "Spring sale", "tags": ["sale", "spring"]}
{"original_url": "https://example.com/2", "custom_code": "autumn-1", "title": "Autumn sale", "tags": ["sale"], "metadata": {"k": 1}}
{"original_url": "https://example.com/3", "custom_code": "plain-1"}
`), 0o600))
	r := devtest.Run(t, env, "import", file)
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
}
