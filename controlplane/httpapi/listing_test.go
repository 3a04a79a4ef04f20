package httpapi_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/internal/linkfile"
)

func TestWhatAListIsAskedForReachesTheService(t *testing.T) {
	a := start(t)
	yes, no := true, false
	for _, path := range []string{"/api/v1/urls?sort=-clicks&limit=7&", "/api/v1/urls/export?limit=7&"} {
		res := a.get(path + "q=spring+sale&tag=a&tag=b%2Cc&domain=own.example&active=true&expired=false&created_after=2030-01-01T00:00:00Z&created_before=2030-02-01T00:00:00%2B01:00")
		require.Equal(t, 200, res.StatusCode, res.text)
		got := a.links.listed[len(a.links.listed)-1]
		require.WithinDuration(t, time.Date(2030, 1, 31, 23, 0, 0, 0, time.UTC), got.CreatedBefore, 0)
		got.CreatedBefore = time.Time{}
		require.Equal(t, controlplane.LinkFilter{
			Words: "spring sale", Tags: []string{"a", "b,c"}, Domain: "own.example", Active: &yes, Expired: &no,
			CreatedAfter: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
		}, got.LinkFilter)
		require.Equal(t, 7, got.Limit)
	}
	require.Equal(t, controlplane.MostClicked, a.links.listed[0].Order)
	require.Equal(t, controlplane.NewestFirst, a.links.listed[1].Order)

	for _, query := range []string{"active=maybe", "created_after=yesterday", "q=" + strings.Repeat("x", 257)} {
		requireProblem(t, a.get("/api/v1/urls?"+query), 422, "invalid")
		requireProblem(t, a.get("/api/v1/urls/export?"+query), 422, "invalid")
	}
	requireProblem(t, a.get("/api/v1/urls?sort=random"), 422, "invalid")
}

func TestDocument_NamesTimesThatRequestsMayHave(t *testing.T) {
	a := start(t)
	require.Contains(t, object(t, a.get("/openapi.json").text)["info"].(map[string]any)["description"], "2016-12-31T23:59:60Z")
	for _, text := range []string{"2016-12-31T23:59:60Z", "2017-01-01t00:00:00z", "2017-01-01T02:00:00%2B02:00"} {
		res := a.get("/api/v1/urls?created_after=" + text)
		require.Equal(t, 200, res.StatusCode, res.text)
		require.WithinDuration(t, time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC), a.links.listed[len(a.links.listed)-1].CreatedAfter, 0, text)
	}
	for _, text := range []string{"2098-12-31T23:59:60Z", "2099-01-01t00:00:00z", "2099-01-01T02:00:00+02:00"} {
		res := a.post("/api/v1/urls", `{"original_url": "https://example.com/", "expires_at": "`+text+`"}`)
		require.Equal(t, 201, res.StatusCode, res.text)
		require.Equal(t, "2099-01-01T00:00:00Z", object(t, res.text)["expires_at"], text)
	}
}

func TestTagsAreListedWithTheirCounts(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/", "tags": ["a", "b"]}`)
	a.create(`{"original_url": "https://example.com/", "tags": ["a"]}`)
	require.JSONEq(t, `{"tags": [{"tag": "a", "links": 2}, {"tag": "b", "links": 1}], "next_after": ""}`, a.get("/api/v1/tags").text)
	require.JSONEq(t, `{"tags": [{"tag": "a", "links": 2}], "next_after": "a"}`, a.get("/api/v1/tags?limit=1").text)
	require.JSONEq(t, `{"tags": [{"tag": "b", "links": 1}], "next_after": ""}`, a.get("/api/v1/tags?after=a").text)
}

// trailer reads an answer to its end, and returns what follows it.
func (a *testAPI) trailer(path string) (text string, trailer http.Header, err error) {
	req, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.url+path, http.NoBody)
	require.NoError(a.t, err)
	req.Header.Set("X-Api-Key", fullKey)
	res, err := a.client.Do(req)
	require.NoError(a.t, err)
	require.Equal(a.t, 200, res.StatusCode)
	body, err := io.ReadAll(res.Body)
	return string(body), res.Trailer, errors.Join(err, res.Body.Close())
}

func TestAnExportHoldsAllLinksAndGoesOnWhereItEnded(t *testing.T) {
	a := start(t)
	for i := range 2500 {
		a.links.all = append(a.links.all, waypost.Link{
			ID: int64(i + 1), Workspace: 1, Code: waypost.Code(fmt.Sprintf("code%04d", i)), Host: "go.brand.example",
			OriginalURL: "https://example.com/?a&b", Details: waypost.Details{Tags: []string{"x", "y,z"}}, RedirectStatus: 302,
		})
	}
	text, trailer, err := a.trailer("/api/v1/urls/export")
	require.NoError(t, err)
	require.Equal(t, 2500, strings.Count(text, "\n"))
	require.Equal(t, "code2499", object(t, strings.SplitN(text, "\n", 2)[0])["short_code"])
	require.Equal(t, "2500", trailer.Get("Waypost-Links"))
	require.Empty(t, trailer.Get("Waypost-Cursor"))

	var rows [][]string
	var columns []string
	for after, more := "", true; more; more = after != "" {
		text, trailer, err := a.trailer("/api/v1/urls/export?format=csv&limit=1200&after=" + after)
		require.NoError(t, err)
		part, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		require.NoError(t, err)
		require.Equal(t, "short_code", part[0][0])
		columns = part[0]
		rows = append(rows, part[1:]...)
		after = trailer.Get("Waypost-Cursor")
	}
	require.Len(t, rows, 2500)
	require.Equal(t, "code0000", rows[2499][0])
	require.Equal(t, `x,"y,z"`, rows[0][slices.Index(columns, "tags")])
	require.Equal(t, "go.brand.example", rows[0][slices.Index(columns, "domain")], "an import would put it under the shared domain otherwise")
}

func TestAnExportAsCSVHoldsNoFormulaAndIsImportedExactly(t *testing.T) {
	a := start(t)
	texts := []string{"=cmd|' /C calc'!A0", "@SUM(1+1)*cmd", "+1+1", "-2+3", "\t=1", "'=1", "plain", "'plain", "＝1"}
	for i, text := range texts {
		a.links.all = append(a.links.all, waypost.Link{
			ID: int64(i + 1), Workspace: 1, Code: waypost.Code(fmt.Sprintf("-ode%04d", i)),
			OriginalURL: "https://example.com/", Details: waypost.Details{Title: text, Description: text, Tags: []string{text, "b"}}, RedirectStatus: 302,
		})
	}
	for raw, path := range []string{"/api/v1/urls/export?format=csv", "/api/v1/urls/export?format=csv&raw=true"} {
		file, _, err := a.trailer(path)
		require.NoError(t, err)
		rows, err := csv.NewReader(strings.NewReader(file)).ReadAll()
		require.NoError(t, err)
		for i, cell := range slices.Concat(rows[1:]...) {
			require.False(t, raw == 0 && strings.ContainsAny(cell[:min(1, len(cell))], "=+-@\t\r"), "cell %d: %q", i, cell)
		}
		got, refused := readLinks(t, file, linkfile.Options{Raw: raw == 1})
		require.Empty(t, refused)
		require.Len(t, got, len(texts))
		for i, l := range got {
			was := a.links.all[len(texts)-1-i]
			require.Equal(t, []any{string(was.Code), was.Title, was.Description, was.Tags}, []any{l.CustomCode, l.Title, l.Description, l.Tags})
		}
	}
}

func TestAHeadOfAnExportReadsOnePage(t *testing.T) {
	a := start(t)
	for i := range 2500 {
		a.links.all = append(a.links.all, waypost.Link{Workspace: 1, Code: waypost.Code(fmt.Sprintf("code%04d", i))})
	}
	require.Equal(t, 200, a.do(call{method: http.MethodHead, path: "/api/v1/urls/export"}).StatusCode)
	require.Len(t, a.links.listed, 1)
}

func TestAnExportThatCannotGoOnIsCutOffAndNotTakenForAWholeOne(t *testing.T) {
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.onList = func(_ context.Context, r controlplane.ListRequest) error {
			if r.Cursor != "" {
				return waypost.Errorf(waypost.EInvalid, "no longer")
			}
			return nil
		}
	})
	for i := range 1500 {
		a.links.all = append(a.links.all, waypost.Link{Workspace: 1, Code: waypost.Code(fmt.Sprintf("code%04d", i))})
	}
	_, _, err := a.trailer("/api/v1/urls/export")
	require.Error(t, err)
}

func TestAnExportEndsWithTheKeyThatAskedForIt(t *testing.T) {
	var revoked atomic.Bool
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.onList = func(context.Context, controlplane.ListRequest) error {
			revoked.Store(true) // while the first page is read
			return nil
		}
		f.onAuthenticate = func(context.Context) error {
			if revoked.Load() {
				return waypost.Errorf(waypost.EUnauthorized, "the API key is not valid")
			}
			return nil
		}
	})
	for i := range 2500 {
		a.links.all = append(a.links.all, waypost.Link{Workspace: 1, Code: waypost.Code(fmt.Sprintf("code%04d", i))})
	}
	text, _, err := a.trailer("/api/v1/urls/export")
	require.Error(t, err, "the answer is cut off, and not taken for a whole one")
	require.LessOrEqual(t, strings.Count(text, "\n"), 1000)
}

func TestMoreExportsThanAllowedAtOnceAreToldToWait(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	var open atomic.Bool
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.onList = func(context.Context, controlplane.ListRequest) error {
			if !open.Load() {
				held <- struct{}{}
				<-release
			}
			return nil
		}
	})
	done := make(chan struct{})
	for range 2 {
		go func() {
			_, _, _ = a.trailer("/api/v1/urls/export")
			done <- struct{}{}
		}()
		<-held
	}
	requireProblem(t, a.get("/api/v1/urls/export"), 503, "unavailable")
	open.Store(true)
	require.Equal(t, 200, a.do(call{path: "/api/v1/urls/export", key: strangerKey}).StatusCode, "one workspace does not keep another from its own")
	close(release)
	for range 2 {
		<-done
	}
	require.Equal(t, 200, a.get("/api/v1/urls/export").StatusCode)
}

func TestExport_BeginsWithAByteOrderMarkOnRequest(t *testing.T) {
	a := start(t)
	a.links.all = []waypost.Link{{Code: "lives", Workspace: 1, OriginalURL: "https://example.com/", Details: waypost.Details{Title: "Größe"}}}
	plain := a.get("/api/v1/urls/export?format=csv").text
	require.True(t, strings.HasPrefix(plain, "short_code,"))
	marked := a.get("/api/v1/urls/export?format=csv&bom=true").text
	require.Equal(t, "\uFEFF"+plain, marked)
	require.True(t, strings.HasPrefix(a.get("/api/v1/urls/export?bom=true").text, "{"), "JSON lines have none")
	links, _ := readLinks(t, marked, linkfile.Options{})
	require.Len(t, links, 1)
}

func TestExport_HoldsAliases(t *testing.T) {
	var f *links
	a := start(t, func(l *links, _ *httpapi.Config) { f = l })
	a.create(`{"original_url": "https://example.com/", "custom_code": "spring"}`)
	f.mu.Lock()
	f.all[0].Aliases = []waypost.Alias{
		{Domain: 1, Code: "box1", Title: "=print", Print: waypost.Print{PrintedOn: "2026-03-31", Batch: "7"}},
		{Domain: 7, Host: "own.example", Code: "b", N: 2},
	}
	f.mu.Unlock()
	rows, err := csv.NewReader(strings.NewReader(a.get("/api/v1/urls/export?format=csv").text)).ReadAll()
	require.NoError(t, err)
	column := slices.Index(rows[0], "aliases")
	require.Equal(t, `[{"short_code":"box1","title":"=print","printed_on":"2026-03-31","batch":"7"},{"short_code":"b","domain":"own.example"}]`, rows[1][column])
	aliases := object(t, a.get("/api/v1/urls/export?format=jsonl").text)["aliases"].([]any)
	require.Equal(t, "https://own.example/b", aliases[1].(map[string]any)["short_url"])
	require.Equal(t, "=print", aliases[0].(map[string]any)["title"])
}
