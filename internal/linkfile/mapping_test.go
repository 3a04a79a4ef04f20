package linkfile_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/internal/linkfile"
)

func TestShape_TakesTheNamesOfColumnsHoweverTheyAreWritten(t *testing.T) {
	spring := api.NewLink{OriginalURL: "https://example.com/", CustomCode: "spring", Title: "Spring"}
	for _, header := range []string{
		"keyword,URL,title", "custom_code,long_url,title", "Back-half,Long URL,TITLE", "shortCode,longUrl,Title", "SlashTag, Destination ,name",
		"short code,original_url,title", "\"Custom_Code\",target_url,title", "Keyword\u200b,\ufeffURL\u00a0,title",
	} {
		links, refused := linksOf(t, header+"\nspring,https://example.com/,Spring\n", linkfile.Options{})
		require.Empty(t, refused)
		require.Equal(t, []linkfile.Link{{NewLink: spring}}, links, header)
	}
}

func TestShape_TakesNoColumnThatMayBeAnythingForACode(t *testing.T) {
	shape, mapping, _ := readAll(t, "url,address,path,key,google,long\n", linkfile.Options{})
	require.Equal(t, []string{"address", "path", "key", "google", "long"}, mapping.LeftOut(&shape))
}

func TestMapper_KeepsCodesOnRequest(t *testing.T) {
	const table = "short_code,custom_code,original_url\nspring,,https://example.com/1\nsummer,sun,https://example.com/2\n,,https://example.com/3\n"
	const lines = `{"short_code": "spring", "original_url": "https://example.com/1"}
{"short_code": "summer", "custom_code": "sun", "original_url": "https://example.com/2"}
{"short_code": null, "original_url": "https://example.com/3"}
`
	for _, text := range []string{table, lines} {
		for keep, want := range map[bool][]string{true: {"spring", "sun", ""}, false: {"", "", ""}} {
			shape, mapping, rows := readAll(t, text, linkfile.Options{})
			m, err := linkfile.NewMapper(&shape, mapping, linkfile.MapOptions{KeepCodes: keep, Domain: "go.example.com"})
			require.NoError(t, err)
			var codes []string
			for _, row := range rows {
				link, err := m.Link(row)
				require.NoError(t, err)
				codes = append(codes, link.CustomCode)
				require.Equal(t, "go.example.com", link.Domain)
			}
			require.Equal(t, want, codes)
		}
	}
}

func TestMapper_TakesNoHostOfAServiceAsADomain(t *testing.T) {
	for row, want := range map[string]string{
		"bit.ly,a": " a", "https://Go.Example.com/,a": "go.example.com a", "go.example.com,a": "go.example.com a", ",https://bit.ly/a": " a",
		",go.example.com/a%2Fb?x=1": "go.example.com a/b", "x.example.com,https://go.example.com/a/": "x.example.com a", "acme.page.link,a": " a",
	} {
		links, refused := linksOf(t, "url,domain,short_url\nhttps://example.com,"+row+"\n", linkfile.Options{})
		require.Empty(t, refused)
		require.Equal(t, want, links[0].Domain+" "+links[0].CustomCode, row)
	}
}

func TestShape_SuggestsTheSeparatorOfTags(t *testing.T) {
	for cells, want := range map[string][]string{
		`"a,b"`: {"a", "b"}, "a;b": {"a", "b"}, "a|b": {"a", "b"}, `"a, b,""c,d"""`: {"a", "b", "c,d"}, `"[""a"",""b,c""]"`: {"a", "b,c"},
		"a": {"a"}, "": nil, `" , "`: nil, `"[1"`: {"[1"},
	} {
		links, refused := linksOf(t, "url,tags\nhttps://example.com,"+cells+"\n", linkfile.Options{})
		require.Empty(t, refused)
		require.Equal(t, want, links[0].Tags, cells)
	}
	shape, mapping, rows := readAll(t, "url,tags\nhttps://example.com,\"Ä \"\"quoted\"\",b;c\"\n", linkfile.Options{})
	_, refused := mapAll(t, shape, mapping, rows)
	require.Contains(t, refused[0], "write a text with a quotation mark in quotation marks, and the mark twice")
	rows[0].Cells[1], mapping.Tags = "a;b,c|d", ";,"
	links, _ := mapAll(t, shape, mapping, rows)
	require.Equal(t, []string{"a", "b", "c|d"}, links[0].Tags)
}

func TestShape_NeverGuessesTheNotationOfDates(t *testing.T) {
	for cells, want := range map[string]string{
		"2030-12-31":                      "iso -> 2030-12-31T23:00:00Z",
		"2030-12-31T23:59:59Z":            "iso -> 2030-12-31T23:59:59Z",
		"2030-06-01 12:00:00":             "iso -> 2030-06-01T10:00:00Z",
		"2030-06-01 12:00:00.5+03":        "iso -> 2030-06-01T09:00:00.5Z",
		"2030-06-01 12:00:00 UTC":         "iso -> 2030-06-01T12:00:00Z",
		"31.12.2030":                      "dmy -> 2030-12-31T23:00:00Z",
		"04.03.2030 05:06":                "dmy -> 2030-03-04T04:06:00Z",
		"12/31/2030 5:06 PM":              "mdy -> 2030-12-31T16:06:00Z",
		"2030/12/31":                      "ymd -> 2030-12-31T23:00:00Z",
		"1924991999":                      "unix -> 2030-12-31T23:59:59Z",
		"1924991999000":                   "unix_ms -> 2030-12-31T23:59:59Z",
		"\"Dec 31, 2030\"":                "words -> 2030-12-31T23:00:00Z",
		"\"Tue, 31 Dec 2030 10:00 GMT\"":  "words -> 2030-12-31T10:00:00Z",
		"03/04/2030":                      " -> [dmy mdy]",
		"03/04/2030\nhttps://b,13/4/2030": "dmy -> 2030-04-03T22:00:00Z",
		"never":                           "iso -> 0001-01-01T00:00:00Z",
		"0000-00-00 00:00:00":             "iso -> 0001-01-01T00:00:00Z",
		"31.12.30":                        `iso -> expires_at: "31.12.30" is no date in the notation iso, such as 2030-12-31`,
		"2030-02-30":                      `iso -> expires_at: "2030-02-30" is no date in the notation iso, such as 2030-12-31`,
	} {
		shape, mapping, rows := readAll(t, "url,Expires at\nhttps://example.com,"+cells+"\n", linkfile.Options{})
		berlin, err := time.LoadLocation("Europe/Berlin")
		require.NoError(t, err)
		m, err := linkfile.NewMapper(&shape, mapping, linkfile.MapOptions{Zone: berlin})
		var got string
		if mapping.Dates == "" {
			require.ErrorContains(t, err, "say in which notation the dates of \"Expires at\" are")
			got = fmt.Sprint(shape.Notations("Expires at", rows))
		} else {
			require.NoError(t, err)
			link, err := m.Link(rows[0])
			got = link.ExpiresAt.UTC().Format(time.RFC3339Nano)
			if err != nil {
				got = err.Error()
			}
		}
		require.Equal(t, want, mapping.Dates+" -> "+got)
	}
}

func TestMapper_DaysEndInTheTimeZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for text := range strings.SplitSeq("original_url,expires_at,valid_from,created_at\nhttps://example.com/,2030-12-31,2029-12-31,2028-12-31\n|"+
		`{"original_url": "https://example.com/", "expires_at": "2030-12-31", "valid_from": "2029-12-31", "created_at": "2028-12-31"}`, "|") {
		shape, mapping, rows := readAll(t, text, linkfile.Options{})
		for _, zone := range []*time.Location{time.UTC, berlin} {
			m, err := linkfile.NewMapper(&shape, mapping, linkfile.MapOptions{Zone: zone})
			require.NoError(t, err)
			l, err := m.Link(rows[0])
			require.NoError(t, err)
			require.Equal(t, time.Date(2031, 1, 1, 0, 0, 0, 0, zone).UTC(), l.ExpiresAt)
			require.Equal(t, time.Date(2029, 12, 31, 0, 0, 0, 0, zone).UTC(), l.ValidFrom)
			require.Equal(t, time.Date(2028, 12, 31, 0, 0, 0, 0, zone).UTC(), l.CreatedAt)
		}
	}
}

func TestMapper_KeepsTheHashesThatEdgesCompute(t *testing.T) {
	const (
		argon  = "$argon2id$v=19$m=65536,t=4,p=1$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b27dWRJJTmaapiSYWvCxBpYtqY"
		bcrypt = "$2b$12$N9qo8uLOickgx2ZMRZoMyef5xcSVz6tDlwsebqZ59QrUm.lPYTRCO"
	)
	for _, column := range []string{"password", "password_hash", "has_password"} {
		for hash, why := range map[string]string{
			argon: "", bcrypt: "", strings.Replace(bcrypt, "12", "13", 1): "cost 13", "$6$rounds=5000$saltsalt$abcdefghijklm": "cannot come along",
			bcrypt[:20]: "cannot come along", "$1$salt$hash": "cannot come along", "{SSHA}c2FsdA==": "cannot come along",
			"pbkdf2:sha256:600000$salt$hash": "cannot come along", "pbkdf2_sha256$600000$salt$hash": "cannot come along",
		} {
			links, refused := linksOf(t, "url;"+column+"\nhttps://example.com;"+hash+"\n", linkfile.Options{})
			if why != "" {
				require.Len(t, refused, 1)
				require.Contains(t, refused[0], why)
				continue
			}
			require.Empty(t, refused)
			require.Equal(t, hash, links[0].PasswordHash)
			require.Empty(t, links[0].Password)
		}
	}
	_, refused := linksOf(t, "url,password_hash\nhttps://example.com,5f4dcc3b\n", linkfile.Options{})
	require.Len(t, refused, 1)
	for _, plain := range []string{"5f4dcc3b", "pa$$word$1", "$5 off", "{a}"} {
		links, refused := linksOf(t, "url,password,password_hash\nhttps://example.com,"+plain+",\n", linkfile.Options{})
		require.Empty(t, refused)
		require.Equal(t, plain, links[0].Password)
	}
}

func TestMapper_LimitsLoseTheClicksThatAreUsed(t *testing.T) {
	links, refused := linksOf(t, "url,max_clicks,clicks\nhttps://example.com,5,\nhttps://example.com,5,2\nhttps://example.com,,9\nhttps://example.com,5.0,5\n",
		linkfile.Options{})
	require.Equal(t, []string{"max_clicks 5 are used up by 5 clicks: leave the row out, or leave the column of clicks out of the mapping"}, refused)
	require.Equal(t, []int64{5, 3, 0}, []int64{links[0].MaxClicks, links[1].MaxClicks, links[2].MaxClicks})
}

func TestNewMapper_ChecksTheMapping(t *testing.T) {
	shape, mapping, _ := readAll(t, "url,title,note\n", linkfile.Options{})
	text, err := json.Marshal(mapping)
	require.NoError(t, err)
	require.JSONEq(t, `{"columns":{"url":"original_url","title":"title","note":"notes"},"tags":",","dates":"iso"}`, string(text))
	for want, change := range map[string]func(m *linkfile.Mapping){
		`the file has no column "x"`:                                       func(m *linkfile.Mapping) { m.Columns["x"] = "title" },
		`the column "note" is mapped to "nots", which is no field`:         func(m *linkfile.Mapping) { m.Columns["note"] = "nots" },
		`two columns, "note" and "title", are mapped to title`:             func(m *linkfile.Mapping) { m.Columns["note"] = "title" },
		"no column is mapped to original_url":                              func(m *linkfile.Mapping) { m.Columns["url"] = "" },
		`the notation of dates "x" is unknown`:                             func(m *linkfile.Mapping) { m.Dates = "x" },
		"no quotation mark and no line end separates tags, as in \"\\\"\"": func(m *linkfile.Mapping) { m.Tags = `"` },
	} {
		_, m, _ := readAll(t, "url,title,note\n", linkfile.Options{})
		change(&m)
		_, err := linkfile.NewMapper(&shape, m, linkfile.MapOptions{})
		require.ErrorContains(t, err, want)
	}
	require.True(t, slices.IsSorted(linkfile.Fields()[22:]))
}
