package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/client"
)

func TestTabulate_FitsTheTerminal(t *testing.T) {
	rows := [][]string{{"CODE", "TARGET", "TITLE"}, {"spring", strings.Repeat("ü", 60), "Spring"}, {"a", "b", strings.Repeat("c", 40)}}
	all := tabulate(rows, 0)
	require.Equal(t, "CODE    TARGET"+strings.Repeat(" ", 56)+"TITLE", strings.Split(all, "\n")[0])
	for width := 30; width <= 80; width++ {
		for _, line := range strings.Split(tabulate(rows, width), "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), width, line)
		}
	}
	require.Equal(t, "CODE    TARGET     TITLE\nspring  üüüüüüüü…  Spring\na       b          cccccccc…", tabulate(rows, 28))
	require.Equal(t, tabulate(rows, 5), tabulate(rows, 1), "no column vanishes")
}

func TestTables_FitTheTerminal(t *testing.T) {
	long := strings.Repeat("long-", 30)
	space := api.KeySpace{
		Ranges:  []api.Range{{RangeBounds: api.RangeBounds{Region: long, Prefix: "4k"}, Leases: []api.Lease{{Node: long}}}},
		Regions: []api.Supply{{Region: long}},
	}
	domains := []api.Domain{{ID: 1, Host: long + ".example", RootURL: "https://" + long + ".example/", NotFoundURL: long}}
	keys := []api.APIKey{{ID: 1, Name: long, Prefix: "wp_live_abcd", Scopes: []string{"links:read", "links:write"}, OwnerEmail: long}}
	audit := api.AuditPage{Entries: []api.AuditEntry{{Actor: long, Action: "keys.create", Subject: long}}}
	var stats client.Stats
	stats.Top = []api.TopLink{{ShortCode: "spring", OriginalURL: long, Title: long}}
	stats.Series = []api.Bucket{{Clicks: 1e12, BotClicks: 7}}
	stats.Countries = []api.Named{{Name: long, Clicks: 1}}
	for _, width := range []int{60, 80} {
		var shown strings.Builder
		writeBars(&shown, &stats, width)
		writeNames(&shown, "COUNTRIES", stats.Countries, width)
		writeTop(&shown, stats.Top, width)
		for _, text := range []string{
			rangeTable(space.Ranges, width), supplyTable(&space, width), domainTable(domains, width), keyTable(keys, width),
			auditTable(&audit, true, width), shown.String(),
		} {
			for line := range strings.Lines(text) {
				require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width, text)
			}
		}
	}
	require.Contains(t, domainTable(domains, 0), long+".example", "a file gets all")
}
