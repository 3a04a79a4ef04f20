package linkimport_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/linkimport"
)

func TestImport_RecognisesTheFormatByHowTheFileBegins(t *testing.T) {
	a := &api{}
	report, err := run(t, a, "\uFEFF\n"+`{"original_url": "https://example.com/1"}`)
	require.NoError(t, err)
	require.Equal(t, 1, report.Created)

	for text, want := range map[string]string{
		"[\n{\"original_url\": \"https://example.com/1\"}\n]": "jq -c '.[]' FILE",
		"PK\x03\x04\x14\x00":         "save it as CSV in UTF-8",
		"\xFF\xFEu\x00r\x00l\x00":    "iconv -f utf-16 -t utf-8",
		"url,M\xfcnchen\nhttps://a,": "iconv -f latin1 -t utf-8",
	} {
		a := &api{}
		_, err := run(t, a, text)
		require.ErrorContains(t, err, want)
		require.Empty(t, a.batches)
	}
}

func TestImport_RefusesTextThatIsNotInUTF8(t *testing.T) {
	csv := "original_url,title\nhttps://example.com/1,M\xfcnchen\nhttps://example.com/2,München\n"
	lines := `{"original_url": "https://example.com/1", "title": "M` + "\xfc" + `nchen"}` + "\n" +
		`{"original_url": "https://example.com/2", "title": "München"}`
	for _, text := range []string{csv, lines} {
		a := &api{}
		report, err := run(t, a, text)
		require.NoError(t, err)
		require.Len(t, report.Refused, 1)
		require.Contains(t, report.Refused[0].Reason, "not in UTF-8: convert the file first, as with `iconv -f latin1 -t utf-8")
		require.Len(t, a.batches[0], 1)
		require.Equal(t, "München", a.batches[0][0].Title)
	}
}

func TestImport_DaysAreThoseOfTheTimeZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	const rules = `[{"when":[{"from":"2030-01-01","until":"2030-06-30"}],"to":"https://example.com/x"}]`
	for _, text := range []string{
		"original_url,expires_at,valid_from,rules\nhttps://example.com/,2030-12-31,2029-12-31,\"" + strings.ReplaceAll(rules, `"`, `""`) + "\"\n" +
			"https://example.com/2,2030-12-31,,\n",
		`{"original_url": "https://example.com/", "expires_at": "2030-12-31", "valid_from": "2029-12-31", "rules": ` + rules + `}`,
	} {
		for _, zone := range []*time.Location{nil, berlin} {
			var told []string
			a := &api{}
			im := linkimport.Import{API: a, Wait: a.wait, Zone: zone, Day: func(field, day string, at time.Time) {
				told = append(told, field+" "+day+" "+at.UTC().Format(time.RFC3339))
			}}
			report, err := im.Run(t.Context(), strings.NewReader(text))
			require.NoError(t, err)
			require.Empty(t, report.Refused)
			want := func(year int, month time.Month, day int) time.Time {
				return time.Date(year, month, day, 0, 0, 0, 0, cmp.Or(zone, time.UTC)).UTC()
			}
			l := a.batches[0][0]
			require.Equal(t, want(2031, 1, 1), l.ExpiresAt)
			require.Equal(t, want(2029, 12, 31), l.ValidFrom)
			require.Equal(t, want(2030, 1, 1), l.Rules[0].When[0].From)
			require.Equal(t, want(2030, 7, 1), l.Rules[0].When[0].Until)
			require.Len(t, told, 1)
		}
	}
}

func TestImport_SaysWhatIsWrongWithJSONInPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		`{"expires_at": "soon"}`:                      `expires_at: "soon" is no time such as 2030-12-31T23:59:59Z, and no day such as 2030-12-31`,
		`{"expires_at": "2030-01-01T00:00:00+24:00"}`: `expires_at: "2030-01-01T00:00:00+24:00" is no time such as 2030-12-31T23:59:59Z, and no day such as 2030-12-31`,
		`{"valid_from": "9999-12-31T23:00:00-02:00"}`: `valid_from: "9999-12-31T23:00:00-02:00" is no time such as 2030-12-31T23:59:59Z, and no day such as 2030-12-31`,
		`{"expires_at": 5}`:                           `expires_at: expected text such as "2030-12-31T23:59:59Z" or "2030-12-31"`,
		`{"original_url": 5}`:                         "original_url: expected text, and there is a number",
		`{"redirect_status": "302"}`:                  "redirect_status: expected a whole number, and there is text",
		`{"max_clicks_mode": "bounded"}`:              `max_clicks_mode "bounded" is unknown: expected exact or eventual`,
		`{"max_clicks": 1.5}`:                         "max_clicks: expected a whole number, and there is the number 1.5",
		`{"active": "yes"}`:                           "active: expected true or false, and there is text",
		`{"tags": "a,b"}`:                             "tags: expected a list, and there is text",
		`["original_url"]`:                            "expected an object, and there is a list",
		`{"original_url": "x"`:                        "the JSON has no end",
		`{"title": "x", "hits": 1}`:                   `unknown field "hits"`,
		`original_url: x`:                             "no valid JSON: invalid character 'o' looking for beginning of value",
		`{"rules": [{"when": 5}]}`:                    "rules[0].when: expected a list, and there is a number",
		`{"rules": {}}`:                               "rules: expected a list, and there is an object",
		`{"rules": [{"to": "x", "hits": 1}]}`:         "rules[0].hits is an unknown field",
		`{"rules": [{"when": [{"from": "2030-01-01T00:00:00+24:00"}]}]}`: `rules[0].when[0].from: ` +
			`"2030-01-01T00:00:00+24:00" is no time such as 2030-12-31T23:59:59Z, and no day such as 2030-12-31`,
		`{"rules": [{"when": [{"from": 5}]}]}`: `rules[0].when[0].from: expected text such as "2030-12-31T23:59:59Z"`,
		`{"title": "x"} {}`:                    "something follows the object",
	} {
		im := linkimport.Import{API: &api{}, Format: linkimport.JSONLines}
		report, err := im.Run(t.Context(), strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, []linkimport.Row{{Line: 1, Reason: want}}, report.Refused)
	}
}

func TestImport_ReadsTheTimesOfRulesAsTheAPIDoes(t *testing.T) {
	const rules = `[{"when":[{"from":"2031-05-06t07:08:09z","until":"2031-12-31T23:59:60Z"},{"from":null,"agent":["bot"]}],"to":"https://example.com/x"}]`
	for _, text := range []string{
		"original_url,rules\nhttps://example.com/,\"" + strings.ReplaceAll(rules, `"`, `""`) + "\"\n",
		`{"original_url": "https://example.com/", "rules": ` + rules + `}`,
	} {
		a := &api{}
		report, err := run(t, a, text)
		require.NoError(t, err)
		require.Empty(t, report.Refused)
		when := a.batches[0][0].Rules[0].When
		require.Equal(t, time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC), when[0].From)
		require.Equal(t, time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC), when[0].Until)
		require.True(t, when[1].From.IsZero())
	}
}
