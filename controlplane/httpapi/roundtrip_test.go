package httpapi_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
	"waypost/internal/linkfile"
	"waypost/rules"
)

// readLinks returns the links of a file by the mapping that its columns suggest, and the
// reasons of refused rows.
func readLinks(t *testing.T, text string, o linkfile.Options) (links []linkfile.Link, refused []string) {
	t.Helper()
	r, err := linkfile.NewReader(strings.NewReader(text), o)
	require.NoError(t, err)
	var rows []linkfile.Row
	for row, err := r.Next(); !errors.Is(err, io.EOF); row, err = r.Next() {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	shape := r.Shape()
	mapper, err := linkfile.NewMapper(&shape, shape.Suggest(rows), linkfile.MapOptions{KeepCodes: true})
	require.NoError(t, err)
	for _, row := range rows {
		link, err := mapper.Link(row)
		if err != nil {
			refused = append(refused, err.Error())
			continue
		}
		links = append(links, link)
	}
	return links, refused
}

func TestExport_RulesAreImportedAsTheyWere(t *testing.T) {
	equals := "=1+1"
	source := rules.Source{
		ValidFrom: time.Date(2026, 12, 1, 8, 0, 0, 5e6, time.UTC), ExpiredURL: "https://example.com/over",
		MaxClicks: 1000, MaxClicksMode: rules.ModeExact, ExhaustedURL: "https://example.com/full",
		Rules: []rules.Rule{
			{ID: 3, Name: `"here", now`, To: "https://example.com/de?a=b,c", When: []rules.Condition{
				{Country: []string{"DE", "AT"}, Not: true},
				{Query: &rules.Parameter{Key: "a", Equals: &equals}},
				{Week: &rules.Schedule{Zone: "Europe/Berlin", Hours: []string{"mon-fri 09:00-17:30"}}},
			}},
			{ID: 1, Split: &rules.Split{By: rules.ByCookie, Variants: []rules.Variant{
				{ID: 1, Weight: 70, To: "https://example.com/a"}, {ID: 2, Name: "b", Weight: 30, To: "https://example.com/b"},
			}}},
		},
	}
	var f *links
	a := start(t, func(l *links, _ *httpapi.Config) { f = l })
	a.create(`{"original_url": "https://example.com/"}`)
	a.create(`{"original_url": "https://example.com/plain"}`)
	ruled(t, f, source)
	for query, raw := range map[string]bool{"csv": false, "csv&raw=true": true, "jsonl": false} {
		all, refused := readLinks(t, a.get("/api/v1/urls/export?format="+query).text, linkfile.Options{Raw: raw})
		require.Empty(t, refused)
		require.Len(t, all, 2)
		for _, n := range all {
			if n.OriginalURL == "https://example.com/plain" {
				require.Empty(t, n.Rules)
				require.True(t, n.ValidFrom.IsZero())
				continue
			}
			require.Equal(t, source.Rules, n.Rules)
			require.True(t, source.ValidFrom.Equal(n.ValidFrom))
			require.Equal(t, source.ExpiredURL, n.ExpiredURL)
			require.Equal(t, []any{source.MaxClicks, source.MaxClicksMode, source.ExhaustedURL}, []any{n.MaxClicks, n.MaxClicksMode, n.ExhaustedURL})
		}
	}

	for cell, reason := range map[string]string{
		`[{"nam": 1}]`: "rules[0].nam is an unknown field", "{}": "rules: expected a list", "[] x": "after top-level value",
	} {
		row := "original_url,rules\nhttps://example.com/,\"" + strings.ReplaceAll(cell, `"`, `""`) + "\"\n"
		_, refused := readLinks(t, row, linkfile.Options{})
		require.Len(t, refused, 1)
		require.Contains(t, refused[0], reason)
	}
	_, refused := readLinks(t, "original_url,valid_from\nhttps://example.com/,soon\n", linkfile.Options{})
	require.Contains(t, refused[0], `valid_from: "soon" is no date`)
}
