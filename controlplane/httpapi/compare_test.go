package httpapi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/controlplane"
)

// compared is the statistics of busy, with a time that they are compared with.
func compared(t *testing.T) *statistics {
	f := busy()
	day := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	span, err := controlplane.NewSpan(controlplane.StatsQuery{From: day, To: day.AddDate(0, 0, 3)}, day)
	require.NoError(t, err)
	f.stats.Compared = &controlplane.Compared{
		Span: span, Clicks: 9, Bots: 1, Series: []controlplane.QuarterClicks{{Clicks: 8, Bots: 1}, {}, {Clicks: 1}},
		Visitors: 7, VisitorBots: 1, Complete: controlplane.Completeness{Until: day.AddDate(0, 0, 1)}, Now: 12, Then: 9, Steps: 2,
	}
	f.stats.Breakdowns[controlplane.Variants].Named = []controlplane.NamedClicks{{Name: "2/10", Clicks: 6}, {Name: "2/9", Clicks: 2}}
	return f
}

func TestStats_CompareWithTheTimeAsked(t *testing.T) {
	f := compared(t)
	a := clicked(t, f)
	for _, path := range []string{"/api/v1/urls/spring/stats", "/api/v1/stats"} {
		shown := object(t, a.do(call{path: path + berlin + "&compare_from=2026-02-27&compare_to=2026-03-01", key: statsKey}).text)
		require.JSONEq(t, `{"from": "2026-03-28T00:00:00Z", "to": "2026-03-31T00:00:00Z", "clicks": 9, "bot_clicks": 1,
			"unique_visitors": 7, "unique_bots": 1, "complete_until": "2026-03-29T00:00:00Z", "behind": [],
			"series": [{"t": "2026-03-28T00:00:00Z", "clicks": 8, "bot_clicks": 1}, {"t": "2026-03-29T00:00:00Z", "clicks": 0, "bot_clicks": 0},
				{"t": "2026-03-30T00:00:00Z", "clicks": 1, "bot_clicks": 0}],
			"change": {"steps": 2, "clicks": 12, "before": 9, "share": 0.333333}}`, jsonOf(t, shown["compared"]))
		with := f.asked().Compare
		require.Equal(t, "2026-02-26T23:00:00Z 2026-03-01T23:00:00Z",
			with.From.UTC().Format(time.RFC3339)+" "+with.To.UTC().Format(time.RFC3339), "days of the zone, the last included")
		a.do(call{path: path + "?compare=year", key: statsKey})
		require.Equal(t, controlplane.Comparison{With: controlplane.CompareYear}, f.asked().Compare)
	}
	f.stats.Compared.Then = 0
	change := object(t, a.get("/api/v1/urls/spring/stats?compare=previous").text)["compared"].(map[string]any)["change"]
	require.Nil(t, change.(map[string]any)["share"])
}

func TestStats_CountFromAMoment(t *testing.T) {
	f := &statistics{}
	a := clicked(t, f)
	shown := object(t, a.get("/api/v1/urls/spring/stats?since=2026-03-31T09:22:00+02:00&interval=hour&tz=Europe/Berlin").text)
	require.Equal(t, "2026-03-31T09:15:00+02:00", shown["since"])
	require.Equal(t, "2026-03-31T09:15:00+02:00", shown["from"])
	require.Equal(t, "2026-03-31T14:15:00+02:00", shown["to"])
	require.Len(t, shown["series"], 5)
	require.NotContains(t, object(t, a.get("/api/v1/urls/spring/stats").text), "since")
}

func TestStats_ShowChangesOfTheLink(t *testing.T) {
	f := busy()
	f.more = true
	f.notes = []api.Annotation{
		{T: f.stats.Complete.Until, Changes: []string{"target", "state"}, By: &api.Changer{Kind: "user", ID: 7, Name: "Ada"}},
		{T: f.stats.Complete.Until, Changes: []string{"expired"}},
	}
	shown := object(t, clicked(t, f).get("/api/v1/urls/spring/stats").text)
	require.JSONEq(t, `[{"t": "2026-03-31T11:59:58Z", "changes": ["target", "state"], "by": {"kind": "user", "id": 7, "name": "Ada"}},
		{"t": "2026-03-31T11:59:58Z", "changes": ["expired"], "by": null}]`, jsonOf(t, shown["annotations"]))
	require.Equal(t, true, shown["annotations_more"])
}

func TestStats_CSVSuitsSpreadsheetsOfOtherCountries(t *testing.T) {
	a := clicked(t, compared(t))
	get := func(query string) string {
		return a.do(call{path: "/api/v1/urls/spring/stats" + berlin + query, key: statsKey, header: map[string]string{"Accept": "text/csv"}}).text
	}
	require.Equal(t, "\ufefft;clicks;bot_clicks;compared_t;compared_clicks;compared_bot_clicks\n"+
		"2026-03-29T00:00:00+01:00;8;3;2026-03-28T00:00:00Z;8;1\n2026-03-30T00:00:00+02:00;4;0;2026-03-29T00:00:00Z;0;0\n"+
		";;;2026-03-30T00:00:00Z;1;0\n", get("&bom=true&separator=semicolon"))
	require.Equal(t, "rule;name;clicks;share;low;high\n2;9;2;0,25;0,071479;0,590725\n2;10;6;0,75;0,409275;0,928521\n",
		get("&separator=semicolon&breakdown=variants"), "a decimal point would make a date of a share")
	require.Contains(t, get("&separator=comma&breakdown=variants"), "2,9,2,0.25,")
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}
