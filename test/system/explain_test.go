package system_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
)

// An operator asks an edge, which answers by its own replica, within seconds.
func TestExplain_AnEdgeAnswersByItsOwnReplica(t *testing.T) {
	t.Parallel()
	s := oneEdge.For(t)
	node := s.State().Edges[0].Node
	call := func(method, path, body string, answer any) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.State().API+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.State().APIKey)
		req.Header.Set("Content-Type", "application/json")
		res, err := visitor.Do(req)
		require.NoError(t, err)
		defer func() { require.NoError(t, res.Body.Close()) }()
		require.NoError(t, json.NewDecoder(res.Body).Decode(answer))
		return res.StatusCode
	}
	var edges api.EdgeList
	require.Eventually(t, func() bool {
		require.Equal(t, 200, call(http.MethodGet, "/api/admin/edges", "", &edges))
		return slices.ContainsFunc(edges.Edges, func(e api.Edge) bool { return e.Node == node && e.Via == "report" })
	}, 15*time.Second, 50*time.Millisecond)
	var link api.Link
	require.Equal(t, 201, call(http.MethodPost, "/api/v1/urls?wait=all", `{
		"original_url": "https://example.com/", "custom_code": "asked", "rules": [
		{"name": "here", "when": [{"agent": ["ios"]}, {"country": ["DE"]}], "to": "https://example.com/de"},
		{"when": [{"agent": ["ios"]}], "to": "https://example.com/ios"}]}`, &link))
	require.NotEmpty(t, link.Warnings)
	require.Equal(t, "country-unknown", link.Warnings[0].Code, "no edge has a GeoIP database")
	for country, want := range map[string]string{"": "https://example.com/ios", "DE": "https://example.com/de"} {
		var e api.Explanation
		path := "/api/v1/explain?url=asked&agent=iphone&address=192.0.2.7&edge=" + node + "&country=" + country
		require.Equal(t, 200, call(http.MethodGet, path, "", &e))
		require.Equal(t, want, e.Result.Location)
		require.NotNil(t, e.Edge.Position)
		require.Nil(t, e.Edge.PlacesBuilt)
		require.True(t, e.Edge.Found && e.Edge.Current)
	}

	require.Equal(t, 201, call(http.MethodPost, "/api/v1/urls?wait=all",
		`{"original_url": "https://example.com/", "custom_code": "tickets", "max_clicks": 5, "max_clicks_mode": "exact"}`, &link))
	for agent, status := range map[string]int{"iphone": 302, "bot": 403} {
		for _, by := range []string{"", "&edge=" + node} {
			var e api.Explanation
			require.Equal(t, 200, call(http.MethodGet, "/api/v1/explain?url=tickets&agent="+agent+by, "", &e))
			require.Equal(t, status, e.Result.Status)
			require.Equal(t, status == 403, strings.Contains(e.Result.Reason, "software is no visitor"), e.Result.Reason)
			require.Eventually(t, func() bool { // an edge waits for a click for a moment alone
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.State().Edges[0].URL+"/tickets", http.NoBody)
				require.NoError(t, err)
				req.Header.Set("User-Agent", e.Facts.UserAgent)
				res, err := visitor.Do(req)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				return res.StatusCode == status
			}, 15*time.Second, 50*time.Millisecond, "the visit")
		}
	}
}
