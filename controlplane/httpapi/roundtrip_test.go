package httpapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/controlplane/httpapi"
	"waypost/internal/linkimport"
	"waypost/rules"
)

// taker is an API that takes every link.
type taker struct{ all []client.NewLink }

func (k *taker) CreateBulk(_ context.Context, ns []client.NewLink) ([]client.Outcome, error) {
	k.all = append(k.all, ns...)
	outcomes := make([]client.Outcome, len(ns))
	for i := range outcomes {
		outcomes[i] = client.Outcome{Status: 201, Link: &client.Link{}}
	}
	return outcomes, nil
}

func (k *taker) List(context.Context, int, string) (client.Page, error) { return client.Page{}, nil }

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
	for _, format := range []struct {
		query string
		as    linkimport.Format
		raw   bool
	}{{"csv", linkimport.CSV, false}, {"csv&raw=true", linkimport.CSV, true}, {"jsonl", linkimport.JSONLines, false}} {
		text := a.get("/api/v1/urls/export?format=" + format.query).text
		if format.as == linkimport.JSONLines {
			text = strings.ReplaceAll(text, `"domain":"go.example.com",`, "")
		}
		into := &taker{}
		report, err := (&linkimport.Import{API: into, Format: format.as, Raw: format.raw, Dedupe: true}).Run(t.Context(), strings.NewReader(text))
		require.NoError(t, err)
		require.Empty(t, report.Refused)
		require.Len(t, into.all, 2)
		for _, n := range into.all {
			if n.OriginalURL == "https://example.com/plain" {
				require.Empty(t, n.Rules)
				require.True(t, n.ValidFrom.IsZero())
				require.True(t, *n.Dedupe)
				continue
			}
			require.Equal(t, source.Rules, n.Rules)
			require.True(t, source.ValidFrom.Equal(n.ValidFrom))
			require.Equal(t, source.ExpiredURL, n.ExpiredURL)
			require.Equal(t, []any{source.MaxClicks, source.MaxClicksMode, source.ExhaustedURL}, []any{n.MaxClicks, n.MaxClicksMode, n.ExhaustedURL})
			require.Nil(t, n.Dedupe, "it is not the one link of its target")
		}
	}

	for cell, reason := range map[string]string{
		`[{"nam": 1}]`: "rules[0].nam is an unknown field", "{}": "rules: expected a list", "[] x": "after top-level value",
	} {
		row := "original_url,rules\nhttps://example.com/,\"" + strings.ReplaceAll(cell, `"`, `""`) + "\"\n"
		report, err := (&linkimport.Import{API: &taker{}}).Run(t.Context(), strings.NewReader(row))
		require.NoError(t, err)
		require.Contains(t, report.Refused[0].Reason, reason)
	}
	report, err := (&linkimport.Import{API: &taker{}}).Run(t.Context(), strings.NewReader("original_url,valid_from\nhttps://example.com/,soon\n"))
	require.NoError(t, err)
	require.Contains(t, report.Refused[0].Reason, `valid_from: "soon" is no time`)
}
