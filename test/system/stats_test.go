package system_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
	"waypost/test/devtest"
)

// requireStatistics follows visits of two edges to the command line, until the clicks are
// deleted.
func requireStatistics(t *testing.T, s *devtest.System) {
	t.Helper()
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	run := func(args ...string) string {
		t.Helper()
		r := devtest.Run(t, env, args...)
		require.Zero(t, r.Code, r.Stderr)
		return r.Stdout
	}
	stats := func(args ...string) (got client.Stats) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(run(append(args, "--output", "json")...)), &got))
		return got
	}
	run("workspaces", "set", "--utm")
	run("links", "create", "https://example.com/sale", "--code", "sale", "--title", "=Sale")
	began := time.Now()
	for i, edge := range s.State().Edges {
		eventually(t, time.Minute, "the link is on "+edge.URL, func() bool {
			status, _, err := location(t.Context(), edge.URL+"/sale+") // which is no click
			return err == nil && status == http.StatusOK
		})
		for range i + 1 {
			require.Equal(t, http.StatusFound, visit{method: http.MethodGet}.to(t, edge.URL, "sale?utm_source=Mail&utm_term=%C3%9Cber"))
		}
	}
	clicked := time.Now()
	var got client.Stats
	server, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	defer server.Close()
	told := func(path string) (now client.Stats) { // by the API, which is asked as often as one likes
		now, err := client.Get[client.Stats](t.Context(), server, path)
		if _, passing := client.Passing(err); !passing {
			require.NoError(t, err)
		}
		return now
	}
	eventually(t, time.Minute, "complete by the API", func() bool {
		until := told(client.Path(api.PathLinks, "sale", "stats")).CompleteUntil
		return until != nil && until.After(clicked)
	})
	eventually(t, time.Minute, "complete", func() bool {
		got = stats("links", "stats", "sale")
		return got.CompleteUntil != nil && got.CompleteUntil.After(clicked)
	})
	require.EqualValues(t, 3, got.Clicks)
	require.EqualValues(t, 3, got.TotalClicks)
	require.Empty(t, got.Behind)
	require.Len(t, got.Series, 30)
	require.Equal(t, []api.Named{{Name: "mail", Clicks: 3}}, got.UTMSource)
	require.Equal(t, []api.Named{{Name: "über", Clicks: 3}}, got.UTMTerm)
	require.Equal(t, []api.Named{{Name: "none", Clicks: 3}}, got.Rules)
	require.Empty(t, got.Variants)
	require.WithinRange(t, *got.CompleteUntil, began, time.Now())
	require.Contains(t, run("links", "stats", "sale"), "clicks 3, of these by bots ")
	require.Contains(t, run("stats"), "LINK  CLICKS  BOTS  TARGET")
	require.Contains(t, run("stats", "--output", "csv", "--breakdown", "top"), "sale,,https://example.com/sale,'=Sale,3,")
	require.Contains(t, run("edges"), "PENDING")

	require.Contains(t, run("links", "forget-clicks", "sale", "--yes"), "deleted 3 clicks of sale")
	require.Zero(t, stats("links", "stats", "sale").TotalClicks)
	require.Zero(t, stats("stats").Clicks)
	require.Contains(t, run("audit"), "clicks.forget")
	require.Equal(t, http.StatusFound, visit{method: http.MethodGet}.to(t, s.State().Edges[0].URL, "sale"))
	eventually(t, time.Minute, "counted again by the API", func() bool { return told(api.PathStats).Clicks == 1 })
	eventually(t, time.Minute, "counted again, from zero", func() bool { return stats("stats").Clicks == 1 })

	r := devtest.Run(t, env, "clicks", "forget-visitors", "2020-01-01", "--yes")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "there is no salt of that day (404)")
	require.Equal(t, 1, strings.Count(r.Stderr, "\n"))
}
