package httpapi_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
)

// clicked is an API with a link that was followed and one that never was.
func clicked(t *testing.T, f *statistics) *testAPI {
	a := startWithStats(t, f)
	a.links.all = []waypost.Link{
		{
			Code: "spring", OriginalURL: "https://example.com/ü?a&b", RedirectStatus: 302, Workspace: 1, Clicks: 42, BotClicks: 5,
			CreatedAt:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			LastAccessedAt: time.Date(2026, 1, 3, 3, 4, 5, 678_000_000, time.FixedZone("", 3600)),
			Aliases: []waypost.Alias{
				{Host: "go.example.com", Code: "s", Print: waypost.Print{PrintedOn: "2026-03-31", Batch: "7"}},
				{Host: "own.example.com", Code: "spring", Print: waypost.Print{Batch: "8"}},
			},
		},
		{Code: "summer", OriginalURL: "https://example.com/", RedirectStatus: 302, Workspace: 1, CreatedAt: time.Date(2026,
			1, 2, 3, 4, 5, 0, time.UTC)},
	}
	return a
}

// busy is statistics of two days in Berlin.
func busy() *statistics {
	f := &statistics{
		stats: controlplane.Stats{
			Clicks: 12, Bots: 3, Visitors: 9, VisitorBots: 2, TotalClicks: 42, TotalBots: 5,
			Complete: controlplane.Completeness{Until: time.Date(2026, 3, 31, 11, 59, 58, 0, time.UTC), Behind: []string{"edge-b"}},
		},
		clicks: map[int64]controlplane.QuarterClicks{
			time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC).Unix(): {Clicks: 8, Bots: 3},
			time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC).Unix(): {Clicks: 4},
		},
		top: []controlplane.TopLink{
			{Code: "spring", OriginalURL: "https://example.com/ü?a&b", Title: "=HYPERLINK(\"https://evil.example\")", Clicks: 9, Bots: 3},
			{Code: "sale", Host: "go.example.com", OriginalURL: "https://example.com/", Clicks: 3},
		},
	}
	f.stats.Breakdowns = [controlplane.Dimensions]controlplane.Breakdown{
		{Named: []controlplane.NamedClicks{{Name: "DE", Clicks: 8}, {Name: "", Clicks: 4}}},
		{Named: []controlplane.NamedClicks{{Name: "Berlin, DE", Clicks: 8}, {Name: "", Clicks: 4}}},
		{Named: []controlplane.NamedClicks{{Name: "desktop", Clicks: 9}, {Name: "bot", Clicks: 3}}},
		{Named: []controlplane.NamedClicks{{Name: "Firefox", Clicks: 12}}},
		{Named: []controlplane.NamedClicks{{Name: "Linux", Clicks: 12}}},
		{Named: []controlplane.NamedClicks{{Name: "", Clicks: 6}, {Name: "www.example.com", Clicks: 3}, {
			Name:   "direct",
			Clicks: 1,
		}, {Name: "@evil", Clicks: 1}}, Other: 1},
		{Named: []controlplane.NamedClicks{{Name: "2", Clicks: 10}, {Name: "", Clicks: 2}}},
		{Named: []controlplane.NamedClicks{{Name: "2/10", Clicks: 6}, {Name: "2/9", Clicks: 2}, {Name: "", Clicks: 3}, {Name: "1/9", Clicks: 1}}},
		{Named: []controlplane.NamedClicks{{Name: "/spring", Clicks: 7}, {Name: "go.example.com/s", Clicks: 5}}},
		{Named: []controlplane.NamedClicks{{Name: "mail", Clicks: 8}, {Name: "", Clicks: 4}}},
		{Named: []controlplane.NamedClicks{{Name: "", Clicks: 12}}},
		{Named: []controlplane.NamedClicks{{Name: "spring sale", Clicks: 12}}},
		{Named: []controlplane.NamedClicks{{Name: "=1+1", Clicks: 11}}, Other: 1},
		{Named: []controlplane.NamedClicks{{Name: "", Clicks: 12}}},
	}
	return f
}

const berlin = "?from=2026-03-29&to=2026-03-30&tz=Europe/Berlin"

const berlinStats = `"from": "2026-03-29T00:00:00+01:00", "to": "2026-03-31T00:00:00+02:00", "interval": "day", "tz": "Europe/Berlin",
	"clicks": 12, "bot_clicks": 3, "unique_visitors": 9, "unique_bots": 2, "total_clicks": 42, "total_bot_clicks": 5,
	"complete_until": "2026-03-31T11:59:58Z", "behind": ["edge-b"],
	"series": [{"t": "2026-03-29T00:00:00+01:00", "clicks": 8, "bot_clicks": 3}, {"t": "2026-03-30T00:00:00+02:00",
		"clicks": 4, "bot_clicks": 0}],
	"breakdown_from": "2026-03-28T00:00:00Z", "breakdown_to": "2026-03-31T00:00:00Z",
	"countries": [{"name": "DE", "clicks": 8}, {"name": "unknown", "clicks": 4}],
	"cities": [{"name": "Berlin, DE", "clicks": 8}, {"name": "unknown", "clicks": 4}],
	"devices": [{"name": "desktop", "clicks": 9}, {"name": "bot", "clicks": 3}],
	"browsers": [{"name": "Firefox", "clicks": 12}], "os": [{"name": "Linux", "clicks": 12}],
	"referrers": [{"name": "direct", "clicks": 7}, {"name": "www.example.com", "clicks": 3}, {"name": "@evil",
		"clicks": 1}, {"name": "other", "clicks": 1}],
	"utm_source": [{"name": "mail", "clicks": 8}, {"name": "none", "clicks": 4}], "utm_medium": [{"name": "none", "clicks": 12}],
	"utm_campaign": [{"name": "spring sale", "clicks": 12}], "utm_term": [{"name": "=1+1", "clicks": 11}, {"name": "other", "clicks": 1}],
	"utm_content": [{"name": "none", "clicks": 12}]`

func TestStatsTellHowOftenWhenAndByWhomALinkWasFollowed(t *testing.T) {
	a := clicked(t, busy())
	res := a.get("/api/v1/urls/spring/stats" + berlin)
	require.Equal(t, 200, res.StatusCode, res.text)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.JSONEq(t, `{"short_code": "spring", "original_url": "https://example.com/ü?a&b",
		"created_at": "2026-01-02T03:04:05Z", "last_accessed_at": "2026-01-03T02:04:05.678Z", `+berlinStats+`,
		"rules": [{"name": "2", "clicks": 10}, {"name": "none", "clicks": 2}],
		"variants": [{"rule": "1", "name": "9", "clicks": 1, "share": 1, "interval": [0.206549, 1]},
			{"rule": "2", "name": "9", "clicks": 2, "share": 0.25, "interval": [0.071479, 0.590725]},
			{"rule": "2", "name": "10", "clicks": 6, "share": 0.75, "interval": [0.409275, 0.928521]}],
		"annotations": [], "annotations_more": false,
		"codes": [{"name": "wp.example/spring", "clicks": 7},
			{"name": "go.example.com/s", "clicks": 5, "printed_on": "2026-03-31", "batch": "7"}]}`, res.text)
}

func TestStats_OfAGroupOfLinks(t *testing.T) {
	f := busy()
	a := clicked(t, f)
	res := a.do(call{path: "/api/v1/stats?tag=spring,mail&tag=%22a,b%22&domain=go.example.com&created_by=ann%40example.com", key: statsKey})
	require.EqualValues(t, 3, object(t, res.text)["links"])
	require.Equal(t, []controlplane.GroupQuery{{
		Tags: []string{"spring", "mail", "a,b"}, Host: "go.example.com", Creator: "ann@example.com",
	}}, f.groups)
	require.NotContains(t, object(t, a.do(call{path: "/api/v1/stats", key: statsKey}).text), "links", "of the workspace")
	requireProblem(t, a.do(call{path: "/api/v1/stats?domain=unknown.example", key: statsKey}), 404, "not-found")
	res = a.do(call{path: "/api/v1/stats?code=nope&domain=x.example", key: statsKey})
	requireProblem(t, res, 404, "not-found")
	require.Contains(t, res.text, `x.example/nope`)
	f.groups = nil
	a.do(call{path: "/api/v1/stats?code=spring", key: statsKey})
	a.do(call{path: "/api/v1/stats?pattern=a/*&domain=go.example.com", key: statsKey})
	require.Equal(t, []controlplane.GroupQuery{{Code: "spring"}, {Code: "a/*", Host: "go.example.com"}}, f.groups)
	for query, hint := range map[string]string{"code=spring&pattern=a/*": "not both", "tag=%22a": "commas"} {
		res := a.do(call{path: "/api/v1/stats?" + query, key: statsKey})
		requireProblem(t, res, 422, "invalid")
		require.Contains(t, res.text, hint)
	}
}

func TestStats_TablesOfGroups(t *testing.T) {
	f := busy()
	a := clicked(t, f)
	res := a.do(call{path: "/api/v1/stats/domains?from=2026-03-29&to=2026-03-30&search=x&limit=2", key: statsKey})
	require.JSONEq(t, `{"from": "2026-03-29T00:00:00Z", "to": "2026-03-31T00:00:00Z", "clicks": 40, "found": 3,
		"complete_until": null, "behind": [],
		"groups": [{"name": "wp.example", "links": 2, "clicks": 10, "bot_clicks": 4, "people": 6, "share": 0.25,
			"clicks_before": 20, "change": -0.5, "series": [3, 7]}, {"name": "=1+1", "links": 1, "clicks": 0, "bot_clicks": 0, "people": 0,
			"share": 0, "clicks_before": 0, "change": null, "series": [0, 0]}]}`, res.text)
	res = a.do(call{path: "/api/v1/stats/creators?separator=semicolon", key: statsKey, header: map[string]string{"Accept": "text/csv"}})
	require.Equal(t, "name;links;clicks;bot_clicks;people;share;clicks_before\n;2;10;4;6;0,25;20\n'=1+1;1;0;0;0;0;0\n", res.text)
	require.Equal(t, controlplane.GroupTableQuery{
		By: controlplane.ByDomain, From: time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC),
		Search: "x", Limit: 2,
	}, f.tables[0])
	require.Equal(t, controlplane.GroupTableQuery{By: controlplane.ByCreator, Limit: 100}, f.tables[1])
	requireProblem(t, a.do(call{path: "/api/v1/stats/tags?from=soon", key: statsKey}), 422, "invalid")
	res = a.do(call{path: "/api/v1/stats?created_by=many", key: statsKey})
	requireProblem(t, res, 202, "counting")
	require.Equal(t, "5", res.Header.Get("Retry-After"))
}

func TestStats_OfTwoBreakdowns(t *testing.T) {
	f := busy()
	a := clicked(t, f)
	res := a.do(call{
		path: "/api/v1/stats/crossed?rows=devices&columns=cities&tag=a,b&domain=x.example&created_by=ann&from=2026-03-29&to=2026-03-30", key: statsKey,
	})
	require.JSONEq(t, `{"from": "2026-03-29T00:00:00Z", "to": "2026-03-31T00:00:00Z", "clicks": 40, "kept": 34, "exact": false,
		"complete_until": null, "behind": [],
		"columns": [{"name": "DE", "clicks": 13}, {"name": "=1+1", "clicks": 13}, {"name": "other", "clicks": 8}],
		"rows": [{"name": "mobile", "clicks": 12, "cells": [5, 7, 0]}, {"name": "desktop", "clicks": 6, "cells": [0, 6, 0]},
			{"name": "other", "clicks": 16, "cells": [8, 0, 8]}]}`, res.text)
	res = a.do(call{
		path: "/api/v1/stats/crossed?code=spring&separator=semicolon", key: statsKey, header: map[string]string{"Accept": "text/csv"},
	})
	require.Equal(t, "devices;DE;'=1+1;other\nmobile;5;7;0\ndesktop;0;6;0\nother;8;0;8\n", res.text)
	require.Equal(t, []controlplane.CrossedQuery{{
		Rows: controlplane.Devices, Columns: controlplane.Cities,
		Group: controlplane.GroupQuery{Tags: []string{"a", "b"}, Host: "x.example", Creator: "ann"},
		From:  time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC),
	}, {Rows: controlplane.Devices, Columns: controlplane.Countries, Code: "spring"}}, f.crossed)
	requireProblem(t, a.do(call{path: "/api/v1/stats/crossed?rows=rules", key: statsKey}), 422, "invalid")
}

func TestStats_AnswerTheTenQuestionsOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/statistics.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "## Ten questions")
	section, _, _ = strings.Cut(section, "\n## ")
	asked := 0
	a := clicked(t, busy())
	for line := range strings.SplitSeq(section, "\n") {
		_, path, found := strings.Cut(line, "`GET ")
		if path, _, _ = strings.Cut(path, "`"); found {
			require.Equal(t, 200, a.do(call{path: path, key: statsKey}).StatusCode, path)
			asked++
		}
	}
	require.Equal(t, 10, asked)
}

func TestStatsOfAWorkspaceListTheLinksWithTheMostClicks(t *testing.T) {
	a := clicked(t, busy())
	res := a.do(call{path: "/api/v1/stats" + berlin, key: statsKey})
	require.JSONEq(t, `{`+berlinStats+`, "top": [
		{"short_code": "spring", "domain": "", "original_url": "https://example.com/ü?a&b",
			"title": "=HYPERLINK(\"https://evil.example\")", "clicks": 9, "bot_clicks": 3},
		{"short_code": "sale", "domain": "go.example.com", "original_url": "https://example.com/", "title": "", "clicks": 3,
			"bot_clicks": 0}], "top_exact": true}`, res.text)
	require.Len(t, object(t, a.do(call{path: "/api/v1/stats?top=1", key: statsKey}).text)["top"], 1)
	require.Equal(t, []any{}, object(t, a.do(call{path: "/api/v1/stats?top=0", key: statsKey}).text)["top"])
	requireProblem(t, a.do(call{path: "/api/v1/stats?top=101", key: statsKey}), 422, "invalid")
}

func TestTheShortOldFormTellsTheClicksOfAllTime(t *testing.T) {
	a := clicked(t, busy())
	require.JSONEq(t, `{"short_code": "spring", "original_url": "https://example.com/ü?a&b", "click_count": 42, "bot_clicks": 5,
		"created_at": "2026-01-02T03:04:05Z", "last_accessed_at": "2026-01-03T02:04:05.678Z"}`, a.get("/stats/spring").text)
	require.JSONEq(t, `{"short_code": "summer", "original_url": "https://example.com/", "click_count": 0, "bot_clicks": 0,
		"created_at": "2026-01-02T03:04:05Z", "last_accessed_at": null}`, a.get("/stats/summer").text)
}

func TestWithoutClicksEveryNumberAndListIsThere(t *testing.T) {
	a := clicked(t, &statistics{})
	shown := object(t, a.get("/api/v1/urls/summer/stats").text)
	require.Len(t, shown["series"], 30)
	for _, list := range []string{"countries", "cities", "devices", "browsers", "os", "referrers", "rules", "variants", "codes", "behind"} {
		require.Equal(t, []any{}, shown[list], list)
	}
	require.Nil(t, shown["complete_until"])
	require.Nil(t, shown["last_accessed_at"])
	require.Equal(t, "2026-03-02T00:00:00Z", shown["from"])
	require.Equal(t, "2026-04-01T00:00:00Z", shown["to"])
}

func TestTimesAreDatesOfTheZoneOrMoments(t *testing.T) {
	f := &statistics{}
	a := clicked(t, f)
	for query, want := range map[string][2]string{
		"from=2026-03-01&to=2026-03-01":                                            {"2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"},
		"from=2026-03-01&to=2026-03-31&tz=America/New_York":                        {"2026-03-01T05:00:00Z", "2026-04-01T04:00:00Z"},
		"from=2026-03-01T10:20:30Z&to=2026-03-02T00:00:00%2B02:00&interval=hour":   {"2026-03-01T10:20:30Z", "2026-03-01T22:00:00Z"},
		"from=2026-03-01T10:20:30+02:00&to=2026-03-02T00:00:00Z":                   {"2026-03-01T08:20:30Z", "2026-03-02T00:00:00Z"}, // a plus sign without escape
		"from=2023-10-01&to=2023-10-01&tz=America/Asuncion":                        {"2023-10-01T04:00:00Z", "2023-10-02T03:00:00Z"}, // without a midnight
		"from=2026-03-01T00:00:00.5Z&to=2026-03-02&interval=day&tz=Etc/GMT-14":     {"2026-03-01T00:00:00.5Z", "2026-03-02T10:00:00Z"},
		"from=2026-03-01&to=2026-03-02&tz=America/Argentina/ComodRivadavia":        {"2026-03-01T03:00:00Z", "2026-03-03T03:00:00Z"},
		"from=2026-03-01&to=2026-03-02&interval=week":                              {"2026-03-01T00:00:00Z", "2026-03-03T00:00:00Z"},
		"from=2026-03-01&to=2026-03-02&tz=America/Port-au-Prince&breakdown=cities": {"2026-03-01T05:00:00Z", "2026-03-03T05:00:00Z"},
	} {
		res := a.get("/api/v1/urls/spring/stats?" + query)
		require.Equal(t, 200, res.StatusCode, "%s: %s", query, res.text)
		q := f.asked()
		require.Equal(t, want, [2]string{q.From.UTC().Format(time.RFC3339Nano), q.To.UTC().Format(time.RFC3339Nano)}, query)
	}
	for _, query := range []string{
		"from=yesterday", "to=2026-02-30", "from=2026-03-01T10:00:00", "from=1e9", "from=2026-03-02&to=2026-03-01", "interval=year",
		"from=2026-01-01&to=2026-03-01&interval=hour", "from=2020-01-01&to=2026-01-01", "from=" + strings.Repeat("0", 41), "breakdown=cookies", "to=99999-01-01",
		"since=2026-03-01", "since=yesterday", "since=2026-03-01T00:00:00Z&from=2026-03-01", "since=2026-03-01T00:00:00Z&interval=week",
		"compare=month", "compare_to=2026-03-01", "compare_from=x", "compare_from=2026-01-01&compare_to=x", "separator=tab",
		"compare=year&compare_from=2026-01-01", "tz=Local", "tz=Mars/Olympus", "tz=localtime", "tz=posix/UTC", "tz=../../etc/passwd", "tz=/etc/localtime",
		"tz=A/../../../../etc/localtime", "tz=Europe/Berlin%00", "tz=EUROPE/BERLIN%0A", "tz=" + strings.Repeat("A", 65),
	} {
		for _, path := range []string{"/api/v1/urls/spring/stats?", "/api/v1/stats?"} {
			res := a.do(call{path: path + query, key: statsKey})
			p := requireProblem(t, res, 422, "invalid")
			require.NotContains(t, res.text, "passwd", "%v", p)
		}
	}
}

func TestCSVIsGivenToThoseWhoAskForIt(t *testing.T) {
	a := clicked(t, busy())
	get := func(path, accept string) answer {
		return a.do(call{path: path, key: statsKey, header: map[string]string{"Accept": accept}})
	}
	res := get("/api/v1/urls/spring/stats"+berlin, "text/csv")
	require.Equal(t, "text/csv; charset=utf-8", res.Header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="clicks-spring.csv"`, res.Header.Get("Content-Disposition"))
	require.Equal(t, "Accept", res.Header.Get("Vary"))
	require.Equal(t, "t,clicks,bot_clicks\n2026-03-29T00:00:00+01:00,8,3\n2026-03-30T00:00:00+02:00,4,0\n", res.text)

	res = get("/api/v1/urls/spring/stats"+berlin+"&breakdown=referrers", "application/json;q=0.5, text/csv")
	require.Equal(t, "name,clicks\ndirect,7\nwww.example.com,3\n'@evil,1\nother,1\n", res.text)
	require.Equal(t, "name,clicks\nLinux,12\n", get("/api/v1/stats"+berlin+"&breakdown=os", "text/csv").text)
	require.Equal(t, "name,clicks\n'=1+1,11\nother,1\n", get("/api/v1/stats"+berlin+"&breakdown=utm_term", "text/csv").text)
	require.Equal(t, "name,clicks\n2,10\nnone,2\n", get("/api/v1/urls/spring/stats"+berlin+"&breakdown=rules", "text/csv").text)
	require.Equal(t, "rule,name,clicks,share,low,high\n1,9,1,1,0.206549,1\n2,9,2,0.25,0.071479,0.590725\n2,10,6,0.75,0.409275,0.928521\n",
		get("/api/v1/urls/spring/stats"+berlin+"&breakdown=variants", "text/csv").text)
	requireProblem(t, get("/api/v1/stats"+berlin+"&breakdown=variants", "text/csv"), 422, "invalid")
	res = get("/api/v1/stats"+berlin+"&breakdown=top", "text/csv; header=present")
	require.Equal(t, "short_code,domain,original_url,title,clicks,bot_clicks\n"+
		"spring,,https://example.com/ü?a&b,\"'=HYPERLINK(\"\"https://evil.example\"\")\",9,3\nsale,go.example.com,https://example.com/,,3,0\n", res.text)

	for _, accept := range []string{"", "*/*", "text/*", "application/json, text/csv;q=0.9", "text/csv;q=0", "text/html, */*", ",;,"} {
		require.Equal(t, "application/json", get("/api/v1/stats", accept).Header.Get("Content-Type"), accept)
	}
	requireProblem(t, get("/api/v1/urls/unknown/stats", "text/csv"), 404, "not-found")
}

func TestNoTextInCSVIsAFormula(t *testing.T) {
	for _, evil := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\u00a0=1", "＝1", "\n"} {
		f := busy()
		f.top[0].Title = evil
		a := clicked(t, f)
		text := a.do(call{path: "/api/v1/stats?breakdown=top", key: statsKey, header: map[string]string{"Accept": "text/csv"}}).text
		require.Contains(t, text, "'"+evil, "%q", evil)
	}
}

func TestStatsAreAskedUnderTheHostOfADomain(t *testing.T) {
	f := &statistics{}
	a := clicked(t, f)
	require.Equal(t, 200, a.get("/api/v1/urls/spring/stats?domain="+url.QueryEscape("go.example.com")).StatusCode)
	require.Equal(t, 200, a.get("/api/v1/urls/spring/stats").StatusCode)
	require.Equal(t, []string{"go.example.com", ""}, f.hosts)
	requireProblem(t, a.get("/api/v1/urls/spring/stats?domain="+strings.Repeat("a", 254)), 422, "invalid")
}

func TestLinksShowTheirClicks(t *testing.T) {
	a := clicked(t, busy())
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
	a := clicked(t, busy())
	a.links.all[0].ExpiresAt = time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC)
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
	a := clicked(t, busy())
	for _, path := range []string{"/api/v1/urls/spring/stats", "/stats/spring"} {
		for key, status := range map[string]int{readKey: 200, statsKey: 200, fullKey: 200, writeKey: 403, "none": 401} {
			require.Equal(t, status, a.do(call{path: path, key: key}).StatusCode, "%s %s", path, key)
		}
		res := a.do(call{path: path, key: writeKey})
		require.Contains(t, res.Header.Get("WWW-Authenticate"), `scope="analytics:read"`)
	}
	for key, status := range map[string]int{readKey: 403, statsKey: 200, operatorKey: 200, writeKey: 403, "none": 401} {
		require.Equal(t, status, a.do(call{path: "/api/v1/stats", key: key}).StatusCode, key)
	}
	requireProblem(t, a.do(call{path: "/api/v1/urls/spring", key: statsKey}), 403, "forbidden")
}

func TestClicksAndVisitorsAreForgottenByAdministrators(t *testing.T) {
	f := &statistics{salts: map[string]bool{"2026-03-30": true}}
	a := clicked(t, f)
	res := a.do(call{method: "DELETE", path: "/api/v1/urls/spring/clicks?domain=go.example.com", key: operatorKey})
	require.Equal(t, 200, res.StatusCode, res.text)
	require.JSONEq(t, `{"clicks": 42, "bot_clicks": 5, "events": 3}`, res.text)
	require.Equal(t, []string{"go.example.com"}, f.hosts)
	requireProblem(t, a.do(call{method: "DELETE", path: "/api/v1/urls/unknown/clicks", key: operatorKey}), 404, "not-found")
	requireProblem(t, a.do(call{method: "DELETE", path: "/api/v1/urls/a'b/clicks", key: operatorKey}), 404, "not-found")
	requireProblem(t, a.do(call{method: "DELETE", path: "/api/v1/urls/spring/clicks", key: fullKey}), 403, "forbidden")

	const day = "/api/admin/visitor-salts/2026-03-30"
	requireProblem(t, a.do(call{method: "DELETE", path: day, key: fullKey}), 403, "forbidden")
	requireProblem(t, a.do(call{method: "DELETE", path: day, key: strangerKey}), 403, "forbidden")
	res = a.do(call{method: "DELETE", path: day, key: operatorKey})
	require.Equal(t, 204, res.StatusCode, res.text)
	require.NotEmpty(t, res.Header.Get("Waypost-Position"))
	requireProblem(t, a.do(call{method: "DELETE", path: day, key: operatorKey}), 404, "not-found")
	for _, bad := range []string{"2026-02-30", "today", "20260330", "2026-3-30"} {
		requireProblem(t, a.do(call{method: "DELETE", path: "/api/admin/visitor-salts/" + bad, key: operatorKey}), 422, "invalid")
	}
}

func TestABreakdownNamesEachNameOnce(t *testing.T) {
	f := busy()
	f.stats.Breakdowns[controlplane.Referrers] = controlplane.Breakdown{Other: 5}
	for i := range 3 {
		f.stats.Breakdowns[controlplane.Referrers].Named = append(f.stats.Breakdowns[controlplane.Referrers].Named,
			controlplane.NamedClicks{Name: []string{"other", "", "direct"}[i], Clicks: int64(10 - i)})
	}
	a := clicked(t, f)
	shown := object(t, a.get("/api/v1/urls/spring/stats").text)["referrers"]
	require.Equal(t, "[map[clicks:17 name:direct] map[clicks:15 name:other]]", fmt.Sprint(shown), "most clicks first, and the others last")
}

func TestSparklines_NameLinksAsTheyWereAskedFor(t *testing.T) {
	a := clicked(t, busy())
	res := a.get("/api/v1/stats/links?link=spring&link=unknown&link=go.example.com/summer&days=3&tz=Europe/Berlin")
	require.Equal(t, 200, res.StatusCode, res.text)
	require.JSONEq(t, `{"from": "2026-03-29T00:00:00+01:00", "days": 3, "links": [{"domain": "", "short_code": "spring", "clicks": [0, 0, 0]},
		{"domain": "go.example.com", "short_code": "summer", "clicks": [0, 0, 0]}]}`, res.text)
	for _, query := range []string{"link=a&tz=Mars", "link=a&days=32", "link=a&days=0", strings.Repeat("link=a&", 101)} {
		requireProblem(t, a.get("/api/v1/stats/links?"+query), 422, "invalid")
	}
}

func TestStats_CountOneNameByDay(t *testing.T) {
	f := busy()
	f.stats.Named = []controlplane.NamedDay{{Day: 20541, Clicks: 4}, {Day: 20542, Clicks: 1, AtLeast: true}}
	a := clicked(t, f)
	for _, path := range []string{"/api/v1/urls/spring/stats", "/api/v1/stats"} {
		shown := object(t, a.do(call{path: path + "?by=cities&name=Paris,+FR", key: operatorKey}).text)
		require.Equal(t, object(t, `{"by": "cities", "name": "Paris, FR", "clicks": 5, "at_least": true, "series": [
			{"t": "2026-03-29T00:00:00Z", "clicks": 4, "at_least": false},
			{"t": "2026-03-30T00:00:00Z", "clicks": 1, "at_least": true}]}`), shown["named"])
		require.NotContains(t, object(t, a.do(call{path: path, key: operatorKey}).text), "named")
		for query, name := range map[string]string{
			"by=utm_campaign&name=spring+sale": "spring sale", "by=utm_term&name=none": "",
			"by=referrers&name=direct": "", "by=countries&name=unknown": "", "by=os&name=direct": "direct",
		} {
			require.Equal(t, 200, a.do(call{path: path + "?" + query, key: operatorKey}).StatusCode)
			asked := f.queries[len(f.queries)-1].Named
			require.Equal(t, name, asked.Name)
			_, shown, _ := strings.Cut(query, "name=")
			require.Equal(t, name == "", asked.Nameless == shown, "what is shown as %s is counted, and no more: %s", shown, asked.Nameless)
		}
		for _, query := range []string{"by=os", "name=DE", "by=planets&name=Mars", "by=os&name=other", "by=os&name=" + strings.Repeat("x", 265)} {
			requireProblem(t, a.do(call{path: path + "?" + query, key: operatorKey}), 422, "invalid")
		}
	}
	for query, name := range map[string]string{
		"by=rules&name=none": "", "by=rules&name=2": "2", "by=variants&name=10": "10", "by=variants&name=2/10": "2/10",
	} {
		require.Equal(t, 200, a.get("/api/v1/urls/spring/stats?"+query).StatusCode)
		require.Equal(t, name, f.queries[len(f.queries)-1].Named.Name)
		requireProblem(t, a.do(call{path: "/api/v1/stats?" + query, key: statsKey}), 422, "invalid")
	}
}
