package rulefile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/internal/rulefile"
)

func full() rulefile.File {
	five, empty := "5", ""
	return rulefile.File{
		State: `"1-2-3"`, ValidFrom: time.Date(2026, 12, 1, 8, 0, 0, 5e6, time.UTC), ExpiredURL: "https://example.com/over?a=b#c",
		Rules: []api.Rule{
			{ID: 3, Name: "Norway: no", To: "https://example.com/no", When: []api.Condition{
				{Agent: []string{"ios"}},
				{Country: []string{"NO", "DE"}, Not: true},
				{City: []string{"Paris", "São Paulo"}},
				{Language: []string{"no", "pt-BR"}},
				{Address: []string{"10.0.*.1", "2001:db8::/32"}},
				{Query: &api.Parameter{Key: "on", Equals: &five}},
				{Query: &api.Parameter{Key: "a", Equals: &empty}},
				{From: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
			}},
			{ID: 1, Status: 410, When: []api.Condition{
				{Week: &api.Schedule{Zone: "Europe/Berlin", Hours: []string{"mon-fri 09:00-17:30", "sat 10:00-14:00"}}},
				{Query: &api.Parameter{Key: "x", Empty: true}},
			}},
			{ID: 2, Split: &api.Split{By: "cookie", Variants: []api.Variant{
				{ID: 1, Name: "old", Weight: 70, To: "https://example.com/old"}, {ID: 2, Weight: 0, To: "https://example.com/new"},
			}}},
		},
	}
}

func noDay(field, day string) (time.Time, error) {
	return time.Time{}, fmt.Errorf("%s %s is no day", field, day)
}

func TestParse_ReadsDays(t *testing.T) {
	f, err := rulefile.Parse("f", []byte("valid_from: 2026-12-01\nrules:\n  - name: 2026-12-02\n    when:\n      - {from: '2026-12-03', until: 2026-12-04}\n"),
		func(field, day string) (time.Time, error) {
			return api.ParseMoment(day, time.FixedZone("", 3600), field == "until")
		})
	require.NoError(t, err)
	require.Equal(t, "2026-11-30T23:00:00Z", f.ValidFrom.Format(time.RFC3339))
	require.Equal(t, "2026-12-02", f.Rules[0].Name)
	when := f.Rules[0].When[0]
	require.Equal(t, "2026-12-02T23:00:00Z 2026-12-04T23:00:00Z", when.From.Format(time.RFC3339)+" "+when.Until.Format(time.RFC3339))
}

func TestFile_IsReadAsItWasWritten(t *testing.T) {
	for name, f := range map[string]rulefile.File{"full": full(), "gates": {ExpiredURL: "https://example.com/"}, "state": {State: `"a"`}} {
		text := f.Format("spring")
		read, err := rulefile.Parse("f", text, noDay)
		require.NoError(t, err, "%s", text)
		require.Equal(t, f, read, "%s:\n%s", name, text)
	}
	none := rulefile.File{}
	_, err := rulefile.Parse("f", none.Format("spring"), noDay)
	require.ErrorContains(t, err, "f: the file is empty", "comments alone")
}

func TestParse_NamesTheLineOfAMistake(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "f: the file is empty",
		"rules:\n  - nam: x\n":                  `f:2:5: unknown field "nam"`,
		"rules:\n  - when:\n    - contry: DE\n": `f:3:7: unknown field "contry"`,
		"rules:\n  - id: x\n":                   "f:2:9: expected a whole number",
		"rules:\n  - name: [a]\n":               "f:2:11: expected a text",
		"rules:\n  - when:\n    - week: {zone: UTC, hours: [mon-fri 09:00-17:30]}\n": `f:3:43: expected a text; one with a colon, such as "mon-fri 09:00-17:30", needs quotation marks`,
		"rules:\n  - id: 1\n    id: 2\n":                                             `f:3:5: mapping key "id" already defined`,
		"valid_from: soon\n":                                                         `f:1: "soon" is no time such as 2026`,
		"rules:\n  - when:\n      - until: 2026-12-01\n":                             "f: until 2026-12-01 is no day",
		"rules:\n  - when:\n      - until: 1 Dec 2026\n":                             `f:3: "1 Dec 2026" is no time`,
		"rules: [\n":                  "f:1:8: ",
		"rules: []\n---\nrules: []\n": "f: more than one document",
	} {
		_, err := rulefile.Parse("f", []byte(text), noDay)
		require.ErrorContains(t, err, want, text)
	}
	_, err := rulefile.Parse("f", make([]byte, rulefile.MaxSize+1), noDay)
	require.ErrorContains(t, err, "more than")
}

func TestWhere_FindsTheFieldThatTheAPINames(t *testing.T) {
	text := []byte("# a comment\nexpired_url: x\nrules:\n  - to: https://a\n  - when:\n      - agent: [ios,\n          fridge]\n    status: 500\n")
	for message, line := range map[string]int{
		"rules[1].when[0].agent[1]: \"fridge\" is none of ios":          7,
		"body.rules[1].status: expected value to be one of 404, 410":    8,
		"body.rules[1].when[0].country: required":                       6,
		"expired_url: no URL":                                           2,
		"rules: at most 16 different targets":                           4,
		"the link has changed since: get it again, then decide":         0,
		"redirect_status must be 302 or 307 for a link with max_clicks": 0,
	} {
		require.Equal(t, line, rulefile.Where(text, message), message)
	}
}
