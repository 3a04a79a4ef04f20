package commands_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// statsAPI answers every question for statistics, and remembers the last.
type statsAPI struct {
	answer string
	csv    string
	asked  atomic.Pointer[http.Request]
	url    string
}

func serveStats(t *testing.T, answer, csv string) *statsAPI {
	t.Helper()
	a := &statsAPI{answer: answer, csv: csv}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.asked.Store(r)
		if r.Header.Get("Accept") == "text/csv" {
			w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			_, _ = w.Write([]byte(a.csv))
			return
		}
		if a.answer == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(a.answer))
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *statsAPI) run(t *testing.T, args ...string) devtest.Result {
	t.Helper()
	return devtest.Run(t, []string{"WAYPOST_API=" + a.url}, args...)
}

const someStats = `{"short_code": "spring", "original_url": "https://example.com/\u001b[2J",
	"from": "2026-03-29T00:00:00+01:00", "to": "2026-04-01T00:00:00+02:00", "interval": "day", "tz": "Europe/Berlin",
	"clicks": 1004, "bot_clicks": 251, "unique_visitors": 900, "unique_bots": 2, "total_clicks": 2000, "total_bot_clicks": 300,
	"complete_until": "2026-03-31T11:59:58Z", "behind": ["edge-b", "edge-c"],
	"series": [{"t": "2026-03-29T00:00:00+01:00", "clicks": 1000, "bot_clicks": 250}, {"t": "2026-03-30T00:00:00+02:00", "clicks": 0,
		"bot_clicks": 0}, {"t": "2026-03-31T00:00:00+02:00", "clicks": 4, "bot_clicks": 1}],
	"countries": [{"name": "DE", "clicks": 753}, {"name": "unknown", "clicks": 251}], "cities": [], "devices": [], "browsers": [], "os": [],
	"referrers": [{"name": "a.example", "clicks": 12}, {"name": "b.example", "clicks": 11}, {"name": "c.example", "clicks": 10},
		{"name": "d.example", "clicks": 9},
		{"name": "e.example", "clicks": 8}, {"name": "f.example", "clicks": 7}, {"name": "g.example", "clicks": 6}, {"name": "h.example",
			"clicks": 5}, {"name": "i.example", "clicks": 4},
		{"name": "j.example", "clicks": 3}, {"name": "k.example", "clicks": 2}, {"name": "other", "clicks": 23}],
	"utm_source": [{"name": "mail", "clicks": 1000}, {"name": "none", "clicks": 4}], "utm_medium": [{"name": "none", "clicks": 1004}],
	"rules": [{"name": "2", "clicks": 1000}, {"name": "none", "clicks": 4}],
	"variants": [{"rule": "2", "name": "1", "clicks": 700, "share": 0.7, "interval": [0.670865, 0.727581]},
		{"rule": "2", "name": "2", "clicks": 300, "share": 0.3, "interval": [0.272419, 0.329135]}],
	"a_later_field": 1}`

func TestStatsAreBarsAndNamesForPeople(t *testing.T) {
	a := serveStats(t, someStats, "")
	r := a.run(t, "links", "stats", "spring", "--from", "2026-03-29", "--to", "2026-03-31", "--tz", "Europe/Berlin", "--domain",
		"go.example.com")
	require.Zero(t, r.Code, r.Stderr)
	require.Equal(t, `spring  https://example.com/`+"\uFFFD"+`[2J
2026-03-29 00:00 to 2026-04-01 00:00, Europe/Berlin
clicks 1004, of these by bots 251, unique visitors 900; in all time 2000 clicks
complete until 2026-03-31T13:59:58+02:00; clicks may be missing of edge-b, edge-c

2026-03-29  1000  ██████████████████████████████░░░░░░░░░░
2026-03-30     0
2026-03-31     4  ░

COUNTRIES  CLICKS  SHARE
DE         753     75.0 %
unknown    251     25.0 %

REFERRERS   CLICKS  SHARE
a.example   12      12.0 %
b.example   11      11.0 %
c.example   10      10.0 %
d.example   9       9.0 %
e.example   8       8.0 %
f.example   7       7.0 %
g.example   6       6.0 %
h.example   5       5.0 %
i.example   4       4.0 %
j.example   3       3.0 %
and 2 more  25      25.0 %

UTM SOURCES  CLICKS  SHARE
mail         1000    99.6 %
none         4       0.4 %

RULES  CLICKS  SHARE
2      1000    99.6 %
none   4       0.4 %

RULE  VARIANT  CLICKS  SHARE   95 % INTERVAL
2     1        700     70.0 %  67.1 % to 72.8 %
2     2        300     30.0 %  27.2 % to 32.9 %
`, r.Stdout)
	require.Equal(t, "/api/v1/urls/spring/stats?domain=go.example.com&from=2026-03-29&interval=day&to=2026-03-31&tz=Europe%2FBerlin", a.asked.Load().URL.String())
	require.Equal(t, r, a.run(t, "links", "stats", "spring", "--output", "table"))
}

func TestStatsInJSONAreAsTheAPIGivesThem(t *testing.T) {
	a := serveStats(t, someStats, "")
	r := a.run(t, "links", "stats", "spring", "--output", "json")
	require.Zero(t, r.Code, r.Stderr)
	require.JSONEq(t, someStats, r.Stdout)
}

func TestStatsInCSVAreAsTheAPIGivesThem(t *testing.T) {
	a := serveStats(t, "", "name,clicks\nDE,753\n")
	r := a.run(t, "stats", "--output", "csv", "--breakdown", "countries", "--interval", "hour")
	require.Equal(t, devtest.Result{Stdout: "name,clicks\nDE,753\n"}, r)
	require.Equal(t, "/api/v1/stats?breakdown=countries&interval=hour&top=10&tz=UTC", a.asked.Load().URL.String())
}

func TestStats_CompareAndSayWhatChanged(t *testing.T) {
	const compared = `{"from": "2026-03-29T00:00:00Z", "to": "2026-03-30T00:00:00Z", "interval": "day", "tz": "UTC", "clicks": 3,
		"series": [{"t": "2026-03-29T00:00:00Z", "clicks": 3}], "complete_until": null, "behind": [],
		"annotations": [{"t": "2026-03-29T09:15:00Z", "changes": ["target", "state"], "by": null}],
		"compared": {"from": "2026-03-28T00:00:00Z", "to": "2026-03-29T00:00:00Z",
			"change": {"steps": 1, "clicks": 3, "before": 4, "share": -0.25}}}`
	a := serveStats(t, compared, "")
	r := a.run(t, "links", "stats", "spring", "--since", "2026-03-29T00:00:00Z", "--compare-from", "2026-03-28",
		"--separator", "semicolon", "--bom")
	require.Contains(t, r.Stdout, `
2026-03-29  3  ████████████████████████████████████████

compared with 2026-03-28 00:00 to 2026-03-29 00:00: 3 clicks in the first 1 steps, against 4 (-25.0 %)
2026-03-29 09:15  changed: target, state
`)
	require.Equal(t, "bom=true&compare_from=2026-03-28&interval=day&separator=semicolon&since=2026-03-29T00%3A00%3A00Z&tz=UTC",
		a.asked.Load().URL.RawQuery)
}

func TestStatsOfTheWorkspaceNameTheLinksWithTheMostClicks(t *testing.T) {
	a := serveStats(t, `{"from": "2026-03-29T00:00:00Z", "to": "2026-03-29T02:00:00Z", "interval": "hour", "tz": "UTC", "clicks": 3,
		"total_clicks": 3,
		"series": [{"t": "2026-03-28T22:00:00Z", "clicks": 0}, {"t": "2026-03-28T23:00:00Z", "clicks": 0},
			{"t": "2026-03-29T00:00:00Z", "clicks": 3},
			{"t": "2026-03-29T01:00:00Z", "clicks": 0}], "complete_until": null, "behind": [],
		"top": [{"short_code": "spring", "original_url": "https://example.com/", "title": "Spring", "clicks": 2}, {"short_code": "sale",
			"domain": "go.example.com", "original_url": "https://example.com/", "clicks": 1, "bot_clicks": 1}], "top_exact": false}`, "")
	r := a.run(t, "stats", "--top", "2")
	require.Equal(t, devtest.Result{Stdout: `2026-03-29 00:00 to 2026-03-29 02:00, UTC
clicks 3, of these by bots 0, unique visitors 0; in all time 3 clicks
not known to be complete

no clicks before 2026-03-29 00:00
2026-03-29 00:00  3  ████████████████████████████████████████
2026-03-29 01:00  0

LINK                 CLICKS  BOTS  TARGET                TITLE
spring               2       0     https://example.com/  Spring
go.example.com/sale  1       1     https://example.com/  
other links may have as many clicks as the last of these
`}, r)
}

func TestClicksVisitorsAndEdgesAreForgottenFromTheCommandLine(t *testing.T) {
	a := serveStats(t, `{"clicks": 42, "bot_clicks": 5, "events": 3}`, "")
	r := a.run(t, "links", "forget-clicks", "spring", "--domain", "go.example.com", "--yes")
	require.Equal(t, devtest.Result{Stdout: "deleted 42 clicks of spring, 3 of which had been kept one by one\n"}, r)
	require.Equal(t, "DELETE /api/v1/urls/spring/clicks?domain=go.example.com", a.asked.Load().Method+" "+a.asked.Load().URL.String())

	a = serveStats(t, "", "")
	r = a.run(t, "clicks", "forget-visitors", "2026-03-31", "--yes")
	require.Equal(t, devtest.Result{Stdout: "the visitors of 2026-03-31 are forgotten\n"}, r)
	require.Equal(t, "DELETE /api/admin/visitor-salts/2026-03-31", a.asked.Load().Method+" "+a.asked.Load().URL.String())

	r = a.run(t, "edges", "gone", "eu-1", "--yes")
	require.Equal(t, devtest.Result{Stdout: "eu-1 and its clicks are waited for no longer\n"}, r)
	require.Equal(t, "DELETE /api/admin/edges/eu-1", a.asked.Load().Method+" "+a.asked.Load().URL.String())

	a.asked.Store(nil)
	for _, without := range [][]string{{"links", "forget-clicks", "spring"}, {"clicks", "forget-visitors", "2026-03-31"}, {
		"edges",
		"gone", "eu-1",
	}} {
		r = a.run(t, without...)
		require.Equal(t, 64, r.Code)
		require.Contains(t, r.Stderr, "nothing was changed: type "+without[2]+" when asked, or add --yes")
	}
	require.Equal(t, 64, a.run(t, "clicks", "forget-visitors", "yesterday", "--yes").Code)
	require.Equal(t, 64, a.run(t, "links", "list", "--output", "csv").Code)
	r = a.run(t, "stats", "--output", "xml")
	require.Equal(t, 64, r.Code)
	require.Contains(t, r.Stderr, `--output: "xml" is none of text, json, table, csv`)
	require.Nil(t, a.asked.Load(), "nobody is asked")
}

func TestStats_OfGroupsOfLinks(t *testing.T) {
	a := serveStats(t, `{"clicks": 40, "found": 3, "groups": [
		{"name": "spring", "links": 2, "clicks": 10, "bot_clicks": 4, "people": 6, "share": 0.25, "clicks_before": 20},
		{"name": "rest\u001b[2J", "links": 1}]}`, "name,links\n")
	r := a.run(t, "stats", "tags", "--search", "s", "--from", "2026-03-01", "--limit", "2")
	require.Equal(t, devtest.Result{Stdout: `TAG       CLICKS  BOTS  PEOPLE  SHARE   BEFORE  LINKS
spring    10      4     6       25.0 %  20      2
rest` + "\uFFFD" + `[2J  0       0     0       0.0 %   0       1
and 1 more
`}, r)
	require.Equal(t, "/api/v1/stats/tags?from=2026-03-01&limit=2&search=s", a.asked.Load().URL.String())
	r = a.run(t, "stats", "creators", "--output", "csv", "--separator", "semicolon", "--bom")
	require.Equal(t, devtest.Result{Stdout: "name,links\n"}, r)
	require.Equal(t, "/api/v1/stats/creators?bom=true&limit=100&separator=semicolon", a.asked.Load().URL.String())

	a = serveStats(t, `{"clicks": 40, "kept": 13, "complete_until": "2026-03-31T12:00:00Z", "behind": ["edge-2"],
		"columns": [{"name": "DE"}, {"name": "other"}],
		"rows": [{"name": "mobile", "cells": [5, 0]}, {"name": "other", "cells": [0, 8]}]}`, "devices,DE\n")
	r = a.run(t, "stats", "crossed", "--tag", "spring", "--code", "sale", "--domain", "go.example.com", "--from", "2026-03-01")
	require.Equal(t, devtest.Result{Stdout: `        DE  other
mobile  5   0
other   0   8
13 of 40 clicks of people were kept one by one; complete until 2026-03-31T12:00:00Z; clicks may be missing of edge-2
`}, r)
	require.Equal(t, "/api/v1/stats/crossed?code=sale&columns=countries&domain=go.example.com&from=2026-03-01&rows=devices&tag=spring",
		a.asked.Load().URL.String())
	require.Equal(t, devtest.Result{Stdout: "devices,DE\n"}, a.run(t, "stats", "crossed", "--output", "csv", "--rows", "cities"))

	a = serveStats(t, `{"links": 3, "from": "2026-03-29T00:00:00Z", "to": "2026-03-30T00:00:00Z", "tz": "UTC", "series": []}`, "")
	r = a.run(t, "stats", "--tag", "spring", "--tag", "a,b", "--domain", "go.example.com", "--created-by", "ann@example.com")
	require.Contains(t, r.Stdout, "3 links of the group\n")
	require.Equal(t, `/api/v1/stats?created_by=ann%40example.com&domain=go.example.com&interval=day&tag=spring&tag=%22a%2Cb%22&top=10&tz=UTC`,
		a.asked.Load().URL.String())
}
