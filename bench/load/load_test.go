//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/bench"
)

func TestSummary_BecomesACaseAndItsGoals(t *testing.T) {
	var s summary
	require.NoError(t, json.Unmarshal([]byte(`{"metrics": {
		"http_reqs": {"type": "counter", "values": {"count": 5000, "rate": 200}, "thresholds": {"rate>100": {"ok": true}}},
		"http_req_duration": {"values": {"med": 1.5, "p(95)": 20, "p(99)": 1500, "max": 2000}},
		"http_req_failed": {"values": {"rate": 0.001, "passes": 5, "fails": 4995}}, "checks": {"values": {"rate": 0.999}}}}`), &s))
	section := bench.Section{Cases: []bench.Case{s.report("ramp", "")}}
	require.InDelta(t, 99.9, section.Find("ramp", "checks passed in %")[0], 1e-9)
	met := map[string]bool{}
	for _, g := range s.goals("ramp") {
		met[g.What] = g.Figure <= g.Most
	}
	require.Equal(t, map[string]bool{"ramp: p95 in ms": true, "ramp: p99 in ms": false, "ramp: ms for a request, by the rate": true, "ramp: errors in %": true}, met)
}

func TestGrowth_IsDrawnNextToTheModel(t *testing.T) {
	sizes := func(figures ...float64) []bench.Measure {
		return []bench.Measure{{Name: "1 million links", Rounds: figures[:1]}, {Name: "10 million links", Rounds: figures[1:]}}
	}
	panels := growthPanels(&bench.Section{Cases: []bench.Case{
		{Name: measureMemory, Measures: sizes(260, 1300)},
		{Name: modelOfMemory, Measures: sizes(111, 1110)},
		{Name: lists[0].name + ", p99 ms", Measures: sizes(30, 39)},
	}})
	require.Equal(t, []bench.Bar{
		{Name: "1 million links", Value: 260, Strong: true},
		{Name: "10 million links", Value: 1300, Strong: true},
		{Name: "by the model", Value: 111},
		{Name: "by the model", Value: 1110},
	}, panels[0].Bars)
	require.Len(t, panels[6].Bars, 2, "newest first")
}

func TestTitles_HaveThreeWordsOfWhichEveryOneIsInManyTitles(t *testing.T) {
	links := map[string]int{}
	for n := range uint64(27_000) {
		title := strings.Fields(titleOf(n))
		require.Len(t, title, 4)
		for _, word := range title[:3] {
			links[word]++
		}
	}
	require.Len(t, links, len(words))
	for word, n := range links {
		require.Greater(t, n, 1000, word)
	}
}
