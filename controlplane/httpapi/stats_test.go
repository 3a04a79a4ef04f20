package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
)

// clicked is an API with a link that was followed and one that never was.
func clicked(t *testing.T) *api {
	a := start(t)
	a.links.all = []waypost.Link{
		{
			Code: "spring", OriginalURL: "https://example.com/ü?a&b", RedirectStatus: 302, Workspace: 1, Clicks: 42, BotClicks: 5,
			CreatedAt:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			LastAccessedAt: time.Date(2026, 1, 3, 3, 4, 5, 678_000_000, time.FixedZone("", 3600)),
		},
		{Code: "summer", OriginalURL: "https://example.com/", RedirectStatus: 302, Workspace: 1, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
	return a
}

func TestStatsTellHowOftenAndWhenALinkWasFollowed(t *testing.T) {
	a := clicked(t)
	require.JSONEq(t, `{"short_code": "spring", "original_url": "https://example.com/ü?a&b", "clicks": 42, "bot_clicks": 5,
		"created_at": "2026-01-02T03:04:05Z", "last_accessed_at": "2026-01-03T02:04:05.678Z"}`, a.get("/api/v1/urls/spring/stats").text)
	require.JSONEq(t, `{"short_code": "spring", "original_url": "https://example.com/ü?a&b", "click_count": 42, "bot_clicks": 5,
		"created_at": "2026-01-02T03:04:05Z", "last_accessed_at": "2026-01-03T02:04:05.678Z"}`, a.get("/stats/spring").text)
	require.JSONEq(t, `{"short_code": "summer", "original_url": "https://example.com/", "clicks": 0, "bot_clicks": 0,
		"created_at": "2026-01-02T03:04:05Z", "last_accessed_at": null}`, a.get("/api/v1/urls/summer/stats").text)
}

func TestLinksShowTheirClicks(t *testing.T) {
	a := clicked(t)
	shown := object(t, a.get("/api/v1/urls/spring").text)
	require.EqualValues(t, 42, shown["click_count"])
	require.Equal(t, "2026-01-03T02:04:05.678Z", shown["last_accessed_at"])
	page := object(t, a.get("/api/v1/urls").text)["urls"].([]any)
	require.EqualValues(t, 0, page[0].(map[string]any)["click_count"])
	require.Contains(t, page[0], "last_accessed_at")
	require.Nil(t, page[0].(map[string]any)["last_accessed_at"])
	require.EqualValues(t, 42, page[1].(map[string]any)["click_count"])
}

func TestStatsAreThereForExpiredLinksAndForNoneThatAreGoneOrNotOnesOwn(t *testing.T) {
	a := clicked(t)
	a.links.all[0].ExpiresAt = time.Now().Add(-time.Hour)
	a.links.deleted["summer"] = true
	requireProblem(t, a.get("/api/v1/urls/spring"), 410, "gone")
	for _, form := range []string{"/api/v1/urls/CODE/stats", "/stats/CODE"} {
		require.Equal(t, 200, a.get(strings.Replace(form, "CODE", "spring", 1)).StatusCode)
		requireProblem(t, a.get(strings.Replace(form, "CODE", "summer", 1)), 404, "not-found")
		requireProblem(t, a.get(strings.Replace(form, "CODE", "unknown", 1)), 404, "not-found")
		requireProblem(t, a.do(call{path: strings.Replace(form, "CODE", "spring", 1), key: strangerKey}), 404, "not-found")
		asked := a.links.askedAbout()
		requireProblem(t, a.get(strings.Replace(form, "CODE", "a'%20OR%20'1'='1", 1)), 404, "not-found")
		require.Equal(t, asked, a.links.askedAbout(), "nobody is asked about what can be no code")
	}
}

func TestStatsAreForWhoMayReadLinksOrAnalytics(t *testing.T) {
	a := clicked(t)
	for _, path := range []string{"/api/v1/urls/spring/stats", "/stats/spring"} {
		for key, status := range map[string]int{readKey: 200, statsKey: 200, fullKey: 200, writeKey: 403, "none": 401} {
			require.Equal(t, status, a.do(call{path: path, key: key}).StatusCode, "%s %s", path, key)
		}
		res := a.do(call{path: path, key: writeKey})
		require.Contains(t, res.Header.Get("WWW-Authenticate"), `scope="analytics:read"`)
	}
	requireProblem(t, a.do(call{path: "/api/v1/urls/spring", key: statsKey}), 403, "forbidden")
}
