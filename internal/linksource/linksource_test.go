package linksource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"waypost/internal/linkfile"
	"waypost/internal/linksource"
)

// write reads a source at an address, and returns its lines and notes.
func write(t *testing.T, name, base string) (text string, notes []string, err error) {
	t.Helper()
	for _, s := range linksource.Sources() {
		if s.Name != name {
			continue
		}
		var b strings.Builder
		err = s.Write(t.Context(), linksource.Config{
			Base: base, Key: "secret", Timeout: 5 * time.Second, Progress: func(int) {}, Note: func(n string) { notes = append(notes, n) },
			Pause: func(_ context.Context, d time.Duration) error {
				notes = append(notes, "pause "+d.String())
				return nil
			},
		}, &b)
		text = b.String()
	}
	return text, notes, err
}

// linksOf returns the links that an import makes of lines.
func linksOf(t *testing.T, format linkfile.Format, text string) (links []linkfile.Link, refused []string) {
	t.Helper()
	r, err := linkfile.NewReader(strings.NewReader(text), linkfile.Options{Format: format})
	require.NoError(t, err)
	var rows []linkfile.Row
	for row, err := r.Next(); !errors.Is(err, io.EOF); row, err = r.Next() {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	shape := r.Shape()
	m, err := linkfile.NewMapper(&shape, shape.Suggest(rows), linkfile.MapOptions{KeepCodes: true})
	require.NoError(t, err)
	for _, row := range rows {
		l, err := m.Link(row)
		if err != nil {
			refused = append(refused, err.Error())
			continue
		}
		links = append(links, l)
	}
	return links, refused
}

// serve is an API whose answers are texts by path and query.
func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, answer(w, r))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const shlinkLink = `{"shortCode":%q,"shortUrl":"https://s.example/%[1]s","longUrl":"https://example.com/%[1]s",
	"dateCreated":"2021-03-04T05:06:07+01:00","tags":["spring","sale"],
	"meta":{"validSince":null,"validUntil":"2091-01-01T00:00:00+00:00","maxVisits":10},
	"domain":%s,
	"title":"Spring","crawlable":false,"forwardQuery":true,"hasRedirectRules":%t,"visitsSummary":{"total":3,"nonBots":3,"bots":0}}`

func TestShlink_LinksAreReadWithTheirRules(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) string {
		if r.Header.Get("X-Api-Key") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return `{"detail":"no key"}`
		}
		switch r.URL.Path {
		case "/base/rest/v3/short-urls":
			return fmt.Sprintf(`{"shortUrls":{"data":[%s,%s,%s],"pagination":{"currentPage":1,"pagesCount":1,"totalItems":3}}}`,
				fmt.Sprintf(shlinkLink, "a", "null", false), fmt.Sprintf(shlinkLink, "b", `"go.example"`, true),
				fmt.Sprintf(shlinkLink, "c/ü", "null", true))
		case "/base/rest/v3/short-urls/b/redirect-rules":
			assert.Equal(t, "go.example", r.URL.Query().Get("domain"))
			return `{"defaultLongUrl":"x","redirectRules":[
				{"longUrl":"https://example.com/2","priority":2,"conditions":[{"type":"language","matchKey":null,"matchValue":"de"},
					{"type":"query-param","matchKey":"a","matchValue":"b"},{"type":"geolocation-country-code","matchKey":null,"matchValue":"DE"}]},
				{"longUrl":"https://example.com/1","priority":1,"conditions":[{"type":"device","matchKey":null,"matchValue":"android"},
					{"type":"ip-address","matchKey":null,"matchValue":"192.0.2.0/24"},{"type":"any-value-query-param","matchKey":"k","matchValue":null},
					{"type":"valueless-query-param","matchKey":"v","matchValue":null},
					{"type":"before-date","matchKey":null,"matchValue":"2090-01-01T00:00:00+00:00"}]}]}`
		case "/base/rest/v3/short-urls/c/ü/redirect-rules":
			return `{"redirectRules":[{"longUrl":"https://example.com/1","priority":1,"conditions":[{"type":"moon","matchValue":"full"}]}]}`
		}
		w.WriteHeader(http.StatusNotFound)
		return r.URL.Path
	})
	text, notes, err := write(t, "shlink", base+"/base/")
	require.NoError(t, err)
	require.Empty(t, notes)
	links, refused := linksOf(t, "shlink", text)
	require.Len(t, links, 2)
	a := links[0]
	require.Equal(t, []any{"a", "", "https://example.com/a", "Spring", []string{"spring", "sale"}, int64(7), true},
		[]any{a.CustomCode, a.Domain, a.OriginalURL, a.Title, a.Tags, a.MaxClicks, a.ForwardQuery})
	require.Equal(t, time.Date(2021, 3, 4, 4, 6, 7, 0, time.UTC), a.CreatedAt.UTC())
	require.Equal(t, 2091, a.ExpiresAt.Year())
	require.Equal(t, "go.example", links[1].Domain)
	rules, err := json.Marshal(links[1].Rules)
	require.NoError(t, err)
	require.JSONEq(t, `[{"to":"https://example.com/1","when":[{"agent":["android"]},{"address":["192.0.2.0/24"]},{"query":{"key":"k"}},
		{"query":{"key":"v","empty":true}},{"until":"2090-01-01T00:00:00Z"}]},
		{"to":"https://example.com/2","when":[{"language":["de"]},{"query":{"key":"a","equals":"b"}},{"country":["DE"]}]}]`, string(rules))
	require.Equal(t, []string{"rules[0].when[0].moon is an unknown field"}, refused)
}

func TestKutt_LinksWithPasswordsAreRefused(t *testing.T) {
	base := serve(t, func(_ http.ResponseWriter, r *http.Request) string {
		skip, _ := strconv.Atoi(r.URL.Query().Get("skip")) // an empty one fails the test
		var data []string
		for n := skip; n < min(skip+50, 120); n++ {
			data = append(data, fmt.Sprintf(`{"id":"u%d","address":"c%[1]d","target":"https://example.com/%[1]d",
				"description":"d","domain":%s,"created_at":"2020-01-02T03:04:05.678Z",
				"updated_at":"2020-01-02T03:04:05.678Z","expire_in":null,"password":%t,"banned":%t,"visit_count":5,"link":"https://k.example/c%[1]d"}`,
				n, map[bool]string{true: `"go.example"`, false: "null"}[n%2 == 0], n == 3, n == 4))
		}
		return fmt.Sprintf(`{"limit":50,"skip":%d,"total":120,"data":[%s]}`, skip,
			strings.Join(data, ","))
	})
	text, notes, err := write(t, "kutt", base)
	require.NoError(t, err)
	require.Empty(t, notes)
	links, refused := linksOf(t, "kutt", text)
	require.Len(t, links, 119)
	require.Len(t, refused, 1)
	require.Contains(t, refused[0], "the link has a password")
	first := links[0]
	require.Equal(t, []any{"c0", "go.example", "d", 2020}, []any{first.CustomCode, first.Domain, first.Description, first.CreatedAt.Year()})
	require.True(t, links[0].Active == nil || *links[0].Active)
	require.False(t, *links[3].Active)
}

func TestBitly_CustomBackHalvesAreTheCodes(t *testing.T) {
	base := serve(t, func(_ http.ResponseWriter, r *http.Request) string {
		assert.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
		switch {
		case r.URL.Path == "/v4/groups":
			return `{"groups":[{"guid":"g1"},{"guid":"g2"}]}`
		case r.URL.Path == "/v4/groups/g2/bitlinks":
			return `{"links":[],"pagination":{"next":"","total":0}}`
		case r.URL.Query().Get("search_after") == "":
			return `{"links":[{"created_at":"2019-01-02T03:04:05+0000","id":"bit.ly/3abc","link":"https://bit.ly/3abc",
				"custom_bitlinks":["https://go.example/spring","https://bit.ly/spring"],"long_url":"https://example.com/1",
				"title":"One","archived":true,"tags":["a"]}],
				"pagination":{"next":"https://elsewhere.example/v4/groups/g1/bitlinks?size=100&archived=both&search_after=x",
				"size":100,"total":2}}`
		}
		return `{"links":[{"created_at":"2019-01-02T03:04:05+0000","id":"go.example/two","long_url":"https://example.com/2","custom_bitlinks":[],
			"tags":[]}],
			"pagination":{"next":"","total":2}}`
	})
	text, notes, err := write(t, "bitly", base)
	require.NoError(t, err)
	require.Empty(t, notes)
	links, refused := linksOf(t, "bitly", text)
	require.Empty(t, refused)
	require.Len(t, links, 2)
	require.Equal(t, []string{"spring", "go.example", "One"}, []string{links[0].CustomCode, links[0].Domain, links[0].Title})
	require.Len(t, links[0].Aliases, 2)
	require.Equal(t, "3abc", links[0].Aliases[0].ShortCode)
	require.True(t, links[0].Active == nil || *links[0].Active)
	require.Equal(t, []any{"two", "go.example", 2019}, []any{links[1].CustomCode, links[1].Domain, links[1].CreatedAt.Year()})
}

func TestWrite_HostileAPIsAreRefusedInWords(t *testing.T) {
	onePage := fmt.Sprintf(`{"shortUrls":{"data":[%s],"pagination":{"pagesCount":1000000,"totalItems":9}}}`,
		fmt.Sprintf(shlinkLink, "a", "null", false))
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request) string
		says   string
	}{
		"the same page": {func(http.ResponseWriter, *http.Request) string { return onePage }, "sends the same links again, and no end"},
		"no JSON":       {func(http.ResponseWriter, *http.Request) string { return "<html>" }, "is not the JSON of this API"},
		"other JSON":    {func(http.ResponseWriter, *http.Request) string { return `{"shortUrls":7}` }, "is not the JSON of this API"},
		"a long answer": {func(w http.ResponseWriter, _ *http.Request) string {
			for block := strings.Repeat(" ", 1<<20); ; {
				if _, err := io.WriteString(w, block); err != nil {
					return ""
				}
			}
		}, "an answer is longer than 32 MB"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) string {
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
			return ""
		}, "redirects to http://elsewhere.example/: name that address"},
		"a wrong key": {func(w http.ResponseWriter, _ *http.Request) string {
			w.WriteHeader(http.StatusUnauthorized)
			return "Invalid"
		}, "refuses the key (401): Invalid"},
		"another service": {func(w http.ResponseWriter, _ *http.Request) string {
			w.WriteHeader(http.StatusNotFound)
			return ""
		}, "no such address (404)"},
		"500 forever": {func(w http.ResponseWriter, _ *http.Request) string {
			w.WriteHeader(http.StatusInternalServerError)
			return "oops"
		}, "the API answers 500: oops"},
		"a wait of days": {func(w http.ResponseWriter, _ *http.Request) string {
			w.Header().Set("Retry-After", "100000")
			w.WriteHeader(http.StatusTooManyRequests)
			return "later"
		}, "the API answers 429: later"},
	} {
		_, _, err := write(t, "shlink", serve(t, c.answer))
		require.ErrorContains(t, err, c.says, name)
	}
	_, _, err := write(t, "shlink", "localhost")
	require.ErrorContains(t, err, "is no address such as")
}

func TestWrite_HasBoundedMemoryForLongNames(t *testing.T) {
	const pages = 40
	long := strings.Repeat("x", 1<<20)
	page := 0
	base := serve(t, func(http.ResponseWriter, *http.Request) string {
		page++
		return fmt.Sprintf(`{"shortUrls":{"data":[{"shortCode":"%d%s"}],"pagination":{"pagesCount":%d}}}`, page, long, pages)
	})
	var used [pages + 1]uint64
	err := linksource.Sources()[0].Write(t.Context(), linksource.Config{Base: base, Note: func(string) {}, Progress: func(links int) {
		if links == 1 || links == pages {
			var memory runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&memory)
			used[links] = memory.HeapAlloc
		}
	}}, io.Discard)
	require.NoError(t, err)
	require.Less(t, used[pages], used[1]+20<<20)
}

func TestWrite_WaitsAsTheAPIAsks(t *testing.T) {
	asked := 0
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) string {
		switch asked++; asked {
		case 1:
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(http.StatusTooManyRequests)
			return ""
		case 2:
			w.WriteHeader(http.StatusBadGateway)
			return ""
		}
		return `{"shortUrls":{"data":[],"pagination":{"pagesCount":0,"totalItems":5}}}`
	})
	_, notes, err := write(t, "shlink", base)
	require.NoError(t, err)
	require.Equal(t, []string{
		"the API asks to wait for 1m30s", "pause 1m30s", "pause 500ms",
		"shlink names 5 links, and has sent 0: they may have changed while they were read",
	}, notes)
}

func TestWrite_HangingAPIsAreGivenUp(t *testing.T) {
	done := make(chan struct{})
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 3 { // tries, behind which it hangs in the middle of an answer
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
		}
		<-done
	}))
	defer s.Close()
	defer close(done)
	err := linksource.Sources()[0].Write(t.Context(), linksource.Config{
		Base: s.URL, Timeout: 10 * time.Millisecond, Pause: func(context.Context, time.Duration) error { return nil },
	}, io.Discard)
	require.ErrorContains(t, err, "the API has not answered for 10ms")
}
