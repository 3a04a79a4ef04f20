package linkfile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/internal/linkfile"
)

func TestReader_ReadsObjectsOfJSONHoweverTheyStand(t *testing.T) {
	one, two := `{"url":"https://example.com/1","title":"a\n]} \" b"}`, `{ "url" : "https://example.com/2", "tags": ["x"] }`
	pretty := "{\n \"url\":\n  \"https://example.com/1\", \"title\": \"a\\n]} \\\" b\" }\n" + two
	for _, text := range []string{
		one + "\n" + two, "\uFEFF\n" + one + "\r\n\r\n" + two + "\r\n",
		one + "\r" + two, "[" + one + "," + two + "]", "[\n" + one + ",\n" + two + "\n]\n",
		`{"version":"1","links":[` + one + "," + two + `],"more":1}`, `{"n":{"links":[]},"data":[` + one + "," + two + "]}", pretty,
	} {
		links, refused := linksOf(t, text, linkfile.Options{})
		require.Empty(t, refused, text)
		require.Equal(t, []linkfile.Link{
			{NewLink: api.NewLink{OriginalURL: "https://example.com/1", Title: "a\n]} \" b"}},
			{NewLink: api.NewLink{OriginalURL: "https://example.com/2", Tags: []string{"x"}}},
		}, links, text)
	}
}

func TestMapper_SaysWhatIsWrongWithJSONInPlainWords(t *testing.T) {
	for text, want := range map[string]string{
		`{"expires_at": "soon"}`:               `expires_at: "soon" is no date in the notation iso, such as 2030-12-31`,
		`{"redirect_status": "x"}`:             `redirect_status "x" is no whole number`,
		`{"max_clicks": 1.5}`:                  `max_clicks "1.5" is no whole number`,
		`{"max_clicks": "1.000"}`:              `max_clicks "1.000" is no whole number`,
		`{"active": "perhaps"}`:                `active "perhaps" is neither true nor false`,
		`{"metadata": [1]}`:                    "metadata is no JSON object",
		`["original_url"]`:                     "expected an object, and there is a list",
		`{"original_url": "x"`:                 "the JSON has no end",
		`{"title": "x", "title": "y"}`:         `no valid JSON: duplicate object member name "title"`,
		`{"aliases": [1]}`:                     "aliases are no JSON list of objects with short_code, domain and title",
		`{"rules": [{"when": 5}]}`:             "rules[0].when: expected a list, and there is a number",
		`{"rules": {}}`:                        "rules: expected a list, and there is an object",
		`{"rules": [{"to": "x", "hits": 1}]}`:  "rules[0].hits is an unknown field",
		`{"rules": [{"when": [{"from": 5}]}]}`: `rules[0].when[0].from: expected text such as "2030-12-31T23:59:59Z"`,
		`{"title": "x"} {}`:                    "no valid JSON: invalid character '{' after top-level value",
		`{"title": "x"}`:                       "the row has no target",
	} {
		_, refused := linksOf(t, `{"url": "https://example.com/"}`+"\n"+text, linkfile.Options{})
		require.Len(t, refused, 1, text)
		require.Contains(t, refused[0], want)
	}
}

func TestMapper_ReadsTheDaysAndTimesOfRulesAsTheAPIDoes(t *testing.T) {
	const rules = `[{"when":[{"from":"2031-05-06t07:08:09z","until":"2031-12-31"},{"from":null,"agent":["bot"]}],"to":"https://example.com/x"}]`
	for _, text := range []string{
		"original_url,rules\nhttps://example.com/,\"" + strings.ReplaceAll(rules, `"`, `""`) + "\"\n",
		`{"original_url": "https://example.com/", "rules": ` + rules + `}`,
	} {
		links, refused := linksOf(t, text, linkfile.Options{})
		require.Empty(t, refused)
		when := links[0].Rules[0].When
		require.Equal(t, time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC), when[0].From)
		require.Equal(t, time.Date(2032, 1, 1, 0, 0, 0, 0, time.UTC), when[0].Until)
		require.True(t, when[1].From.IsZero())
	}
}

func TestReader_LeavesDataAboutVisitorsOut(t *testing.T) {
	shape, mapping, rows := readAll(t, `{"url":"https://example.com/1","ip":"192.0.2.1","x":{"user_agent":"curl"},"refused":"before"}`+"\n"+
		`{"url":"https://example.com/2","userAgent":"curl","title":"x"}`, linkfile.Options{})
	require.Equal(t, []string{"url", "x.user_agent", "title"}, shape.Columns)
	require.Equal(t, []string{"ip", "userAgent"}, shape.Personal)
	require.Equal(t, `{"url":"https://example.com/1","x":{"user_agent":"curl"}}`, rows[0].Cells[0])
	require.Equal(t, []string{"ip", "userAgent", "x.user_agent"}, mapping.LeftOut(&shape))
}

func TestReader_BoundsTheNamesOfObjects(t *testing.T) {
	var lines strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&lines, `{"url":"https://example.com/","name %d":1}`+"\n", n)
	}
	shape, _, rows := readAll(t, lines.String(), linkfile.Options{})
	require.Len(t, shape.Columns, 256)
	require.Empty(t, rows[254].Reason)
	require.Equal(t, `the objects of the file have more than 256 names, and "name 255" is one more`, rows[255].Reason)
	require.Len(t, rows, 1000)
}

func TestMapper_GivesNewNamesOfLaterRowsTheirFields(t *testing.T) {
	const lines = `{"url":"https://example.com/1"}` + "\n" + `{"url":"https://example.com/2","has_password":true}` + "\n" +
		`{"url":"https://example.com/3","title":"x"}` + "\n" + `{"url":"https://example.com/4","hits per day":3}`
	shape, _, rows := readAll(t, lines, linkfile.Options{})
	mapping := linkfile.Mapping{Columns: map[string]string{"url": "original_url"}, Dates: linkfile.ISO}
	links, refused := mapAll(t, shape, mapping, rows)
	require.Len(t, refused, 2)
	require.Contains(t, refused[0], "the link has a password")
	require.Equal(t, `the row has "hits per day", which is not in the mapping`, refused[1])
	require.Equal(t, "x", links[1].Title)
	mapping.Columns["hits per day"], mapping.Columns["has_password"] = "", ""
	_, refused = mapAll(t, shape, mapping, rows)
	require.Empty(t, refused)
}
