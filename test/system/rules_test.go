package system_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
)

// One link leads telephones, and two halves of all others, to different places: alike on
// both edges. The statistics say how many went where.
func TestRules_LeadAVisitorToOnePlaceOnEveryEdgeAndAreCounted(t *testing.T) {
	t.Parallel()
	s := twoEdges.For(t)
	call := func(method, path string, body, answer any) {
		t.Helper()
		text, err := json.Marshal(body)
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), method, s.State().API+path, bytes.NewReader(text))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.State().APIKey)
		req.Header.Set("Content-Type", "application/json")
		res, err := visitor.Do(req)
		require.NoError(t, err)
		defer func() { require.NoError(t, res.Body.Close()) }()
		require.Less(t, res.StatusCode, 300, "%s %s: %s", method, path, res.Status)
		if method != http.MethodGet {
			require.Equal(t, "all; edges=2", res.Header.Get("Waypost-Applied"))
		}
		require.NoError(t, json.NewDecoder(res.Body).Decode(answer))
	}
	split := func(a, b int) []api.Rule {
		return []api.Rule{
			{Name: "telephones", When: []api.Condition{{Agent: []string{"ios", "android"}}}, To: "https://example.com/app"},
			{Name: "test", Split: &api.Split{Variants: []api.Variant{
				{Name: "a", Weight: a, To: "https://example.com/a"}, {Name: "b", Weight: b, To: "https://example.com/b"},
			}}},
		}
	}
	var link api.Link
	call(http.MethodPost, "/api/v1/urls?wait=all", api.NewLink{
		OriginalURL: "https://example.com/", CustomCode: "campaign", Rules: split(50, 50),
	}, &link)
	require.Equal(t, []int{1, 2}, []int{link.Rules[0].ID, link.Rules[1].ID})

	// follow returns where a visitor is led, and requires that all edges agree.
	clicks := map[string]int64{}
	follow := func(n int, agent string) (target string) {
		t.Helper()
		for _, e := range s.State().Edges {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+"/campaign", http.NoBody)
			require.NoError(t, err)
			req.Header.Set("User-Agent", agent)
			req.Header.Set("X-Forwarded-For", fmt.Sprintf("198.%d.%d.7", 18+n/250, n%250))
			res, err := visitor.Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusFound, res.StatusCode)
			require.Empty(t, res.Header.Get("Set-Cookie"))
			if target == "" {
				target = res.Header.Get("Location")
			}
			require.Equal(t, target, res.Header.Get("Location"), "another edge")
			clicks[strings.TrimPrefix(target, "https://example.com/")]++
		}
		return target
	}
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"
	require.Equal(t, "https://example.com/app", follow(0, "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15"))
	const visitors = 200
	before := make([]string, visitors)
	for n := range before {
		before[n] = follow(n, firefox)
	}
	require.InDelta(t, 0.5, float64(clicks["a"])/float64(clicks["a"]+clicks["b"]), 0.15)
	call(http.MethodPatch, "/api/v1/urls/campaign?wait=all", map[string]any{"rules": split(100, 0)}, &link)
	for n, was := range before {
		require.Equal(t, "https://example.com/a", follow(n, firefox), "the winner takes all, also of those who saw %s", was)
	}

	eventually(t, time.Minute, "every click counted by rule and variant", func() bool {
		var stats api.LinkStats
		call(http.MethodGet, "/api/v1/urls/campaign/stats", nil, &stats)
		got := map[string]int64{}
		for _, r := range stats.Rules {
			got["rule "+r.Name] = r.Clicks
		}
		for _, v := range stats.Variants {
			got[v.Rule+"/"+v.Name] = v.Clicks
		}
		want := map[string]int64{
			"rule 1": clicks["app"], "rule 2": clicks["a"] + clicks["b"], "2/1": clicks["a"], "2/2": clicks["b"],
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	})

	soon := time.Now().Add(3 * time.Second).UTC()
	call(http.MethodPatch, "/api/v1/urls/campaign?wait=all", map[string]any{"rules": nil, "valid_from": soon}, &link)
	for _, e := range s.State().Edges {
		status, _, err := location(t.Context(), e.URL+"/campaign")
		require.NoError(t, err)
		if time.Now().Before(soon) {
			require.Equal(t, http.StatusNotFound, status, "it is not yet time")
		}
		eventually(t, time.Minute, "the link works from then on, without a change", func() bool {
			status, target, err := location(t.Context(), e.URL+"/campaign")
			return err == nil && status == http.StatusFound && target == "https://example.com/"
		})
	}
}
