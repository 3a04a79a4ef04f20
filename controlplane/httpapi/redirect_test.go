package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/httpapi"
)

func TestRedirectSendsTheTargetUnchangedAndUncached(t *testing.T) {
	a := start(t)
	const target = `HTTPS://Example.com:443/a/../b//%7e?q=a+b&q="<>"&{}|#f#g`
	for _, status := range []int{301, 302, 307, 308} {
		code := "code-" + strconv.Itoa(status)
		a.links.all = append(a.links.all, waypost.Link{Code: waypost.Code(code), Location: target, RedirectStatus: status})
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			res := a.do(call{method: method, path: "/" + code + "?utm=1", key: "none"})
			require.Equal(t, status, res.StatusCode)
			require.Equal(t, target, res.Header.Get("Location"))
			require.Empty(t, res.text)
			want := "private, no-store"
			if status == 301 || status == 308 {
				want = "private, max-age=86400"
			}
			require.Equal(t, []string{want}, res.Header.Values("Cache-Control"))
		}
	}
}

func TestAPermanentRedirectIsNeverCachedPastItsExpiry(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	a := start(t, func(f *links, _ *httpapi.Config) { f.now = func() time.Time { return now } })
	a.links.all = []waypost.Link{{Code: "soon", Location: "https://example.com/", RedirectStatus: 301, ExpiresAt: now.Add(90 * time.Second)}}
	require.Equal(t, "private, max-age=90", a.get("/soon").Header.Get("Cache-Control"))
	now = now.Add(89500 * time.Millisecond)
	require.Equal(t, "private, no-store", a.get("/soon").Header.Get("Cache-Control"))
	now = now.Add(500 * time.Millisecond)
	requireProblem(t, a.get("/soon"), 410, "gone")
}

func TestRedirect_UnknownAndDeletedCodesAreProblems(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/", "custom_code": "dies"}`)
	a.do(call{method: http.MethodDelete, path: "/api/v1/urls/dies"})
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"/unknown": {404, "not-found"}, "/dies": {410, "gone"}, "/x": {404, "not-found"}, "/dies/": {410, "gone"}, "/dies.": {410, "gone"},
		"/dies/x": {404, "not-found"},
		"/dies+":  {404, "not-found"}, "/dies+.": {404, "not-found"},
	} {
		res := a.do(call{path: path, key: "none", header: map[string]string{"Accept": "text/html"}})
		requireProblem(t, res, want.status, want.code)
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))

		head := a.do(call{method: http.MethodHead, path: path, key: "none"})
		require.Equal(t, want.status, head.StatusCode)
		require.Empty(t, head.text)
	}
}

func TestRedirect_ReadsAPathAsAnEdgeDoes(t *testing.T) {
	a := start(t)
	a.links.all = []waypost.Link{
		{Code: "café", Location: "https://example.com/cafe", RedirectStatus: 302},
		{Code: "a", Location: "https://example.com/a", RedirectStatus: 302, Flags: waypost.ForwardPath},
		{Code: "a/b", Location: "https://example.com/ab", RedirectStatus: 302},
	}
	for path, want := range map[string]string{
		"/caf%C3%A9": "cafe", "/caf%c3%a9": "cafe", "/cafe%CC%81": "cafe", "/a/b": "ab", "/%61/%62": "ab", "/a/c": "a/c",
		"/a/b/": "ab", "/a/b.": "ab", "/a/": "a/", "/a.": "a", "/caf%C3%A9%29": "cafe", "/a//b": "a//b",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			res := a.do(call{method: method, path: path, key: "none"})
			require.Equal(t, "https://example.com/"+want, res.Header.Get("Location"), path)
		}
	}
	requireProblem(t, a.do(call{path: "/a/b+", key: "none"}), 404, "not-found")
	requireProblem(t, a.do(call{path: "/a/%2e%2e/b", key: "none"}), 400, "malformed")
	requireProblem(t, a.do(call{path: "/caf%C3%A9/x", key: "none"}), 404, "not-found")
	requireProblem(t, a.do(call{path: "/api/v2/links", key: "none"}), 404, "not-found")
	requireProblem(t, a.do(call{method: http.MethodPost, path: "/a/b", key: "none"}), 404, "not-found")
}

func TestRedirect_ForwardsTheQuery(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/x?a=b#c", "custom_code": "query", "forward_query": true}`)
	a.create(`{"original_url": "https://example.com/x?a=b#c", "custom_code": "none"}`)
	for path, location := range map[string]string{
		"/query":                    "https://example.com/x?a=b#c",
		"/query?q=1":                "https://example.com/x?a=b&q=1#c",
		"/none?q=1":                 "https://example.com/x?a=b#c",
		"http://wp.example/query?q": "https://example.com/x?a=b&q#c",
	} {
		require.Equal(t, 302, a.locate(path, location), path)
	}
	require.Equal(t, 405, a.do(call{method: http.MethodDelete, path: "/query"}).StatusCode)
}

func TestRedirect_IgnoresConditions(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/", "custom_code": "mine"}`)
	for _, header := range []map[string]string{
		{"If-None-Match": "*"}, {"If-Match": `"x"`}, {"If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}, {"Range": "bytes=0-0"},
	} {
		res := a.do(call{path: "/mine", header: header})
		require.Equal(t, 302, res.StatusCode)
		require.Equal(t, "https://example.com/", res.Header.Get("Location"))
	}
}

func TestRedirectWithoutADatabaseIsUnavailable(t *testing.T) {
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.onResolve = func(context.Context, string) (waypost.Resolution, error) {
			return waypost.Resolution{}, waypost.WrapError(waypost.EUnavailable, "the database is away", errors.New("refused"))
		}
	})
	res := a.get("/code000")
	requireProblem(t, res, 503, "unavailable")
	require.Equal(t, "5", res.Header.Get("Retry-After"))
}

func TestRedirectNeverLetsALocationSplitTheHeader(t *testing.T) {
	for _, location := range []string{"", "https://example.com/\r\nSet-Cookie: a=b", "https://example.com/\x00"} {
		a := start(t, func(f *links, _ *httpapi.Config) {
			f.onResolve = func(context.Context, string) (waypost.Resolution, error) {
				return waypost.Resolution{Status: 302, Location: []byte(location)}, nil
			}
		})
		res := a.get("/code000")
		requireProblem(t, res, 503, "unavailable")
		require.NotContains(t, res.Header, "Location")
	}
}

func TestRedirect_RefusesALocationThatIsTooLong(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/", "custom_code": "query", "forward_query": true}`)
	a.links.all[0].Location = "https://example.com/" + strings.Repeat("x", waypost.MaxPayload-20)
	requireProblem(t, a.get("/query?q=1"), 414, "too-large")
}

func TestRedirectAsksForTheHostOfTheRequest(t *testing.T) {
	hosts := make(chan string, 1)
	a := start(t, func(f *links, _ *httpapi.Config) {
		f.onResolve = func(_ context.Context, host string) (waypost.Resolution, error) {
			hosts <- host
			return waypost.NotFound, nil
		}
	})
	a.do(call{path: "/code000", host: "Go.Example.com:8443", header: map[string]string{"X-Forwarded-Host": "evil.example"}})
	require.Equal(t, "Go.Example.com:8443", <-hosts)
}

// raw sends text as it is, which http.Client would clean up, and returns the status.
func (a *testAPI) raw(text string) int {
	a.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(a.t.Context(), "tcp", strings.TrimPrefix(a.url, "http://"))
	require.NoError(a.t, err)
	defer func() { require.NoError(a.t, conn.Close()) }()
	_, err = conn.Write([]byte(text))
	require.NoError(a.t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(a.t, err)
	require.NoError(a.t, res.Body.Close())
	require.Empty(a.t, res.Header.Get("Location"))
	return res.StatusCode
}

func TestRedirect_RefusesBrokenEscapes(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/", "custom_code": "found302"}`)
	for path, status := range map[string]int{
		"/found302%": 400, "/found302%zz": 400, "/%%30%30": 400, "/found302/x%": 400, "/found302/x%4": 400, "/forward1/%u002e%u002e/": 400,
		"/%+": 400, "/found302%66": 404,
	} {
		require.Equal(t, status, a.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), path)
	}
	require.Equal(t, 302, a.do(call{path: "/found302?%zz%"}).StatusCode, "a query is not read")
}

func TestPathsThatClimbAreNeitherFollowedNorRedirected(t *testing.T) {
	a := start(t)
	for _, path := range []string{"/../etc/passwd", "//evil.example/..", "/./code000", "/..%2f..%2fetc", "/%2e%2e/code000"} {
		require.Equal(t, 404, a.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), path)
	}
	require.Zero(t, a.links.askedAbout())
	require.Equal(t, 404, a.raw("GET /a/../code000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

// locate asks for a target as it is, and returns the status of a redirect to where it
// should lead.
func (a *testAPI) locate(target, location string) int {
	a.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(a.t.Context(), "tcp", strings.TrimPrefix(a.url, "http://"))
	require.NoError(a.t, err)
	defer func() { require.NoError(a.t, conn.Close()) }()
	_, err = conn.Write([]byte("GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
	require.NoError(a.t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(a.t, err)
	require.NoError(a.t, res.Body.Close())
	require.Equal(a.t, location, res.Header.Get("Location"))
	return res.StatusCode
}
