package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestAPlusSignBehindACodeTellsWhereItLeads(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/?a=<b>&c", "custom_code": "spring", "redirect_status": 301, "forward_path": true}`)
	res := a.do(call{path: "/spring+", key: "none"})
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.JSONEq(t, `{"short_code": "spring", "location": "https://example.com/?a=<b>&c", "redirect_status": 301,
		"expires_at": null, "forward_query": false, "forward_path": true}`, res.text)
	page := a.do(call{path: "/spring+?utm=1", key: "none", header: map[string]string{"Accept": browser}})
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	require.Contains(t, page.text, `<a href="https://example.com/?a=&lt;b&gt;&amp;c"`)
	for _, res := range []answer{res, page, a.do(call{method: http.MethodHead, path: "/spring+", key: "none"})} {
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		require.Equal(t, "Accept", res.Header.Get("Vary"))
		require.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'")
		require.NotContains(t, res.Header, "Location")
	}

	a.create(`{"original_url": "https://example.com/", "custom_code": "dies"}`)
	a.do(call{method: http.MethodDelete, path: "/api/v1/urls/dies"})
	requireProblem(t, a.get("/dies+"), 410, "gone")
	requireProblem(t, a.get("/unknown+"), 404, "not-found")
	requireProblem(t, a.get("/spring%2B"), 404, "not-found")
	requireProblem(t, a.get("/+"), 404, "not-found")
}

func TestALinkThatForwardsDoesSoHereAsOnAnEdge(t *testing.T) {
	a := start(t)
	a.create(`{"original_url": "https://example.com/x?a=b#c", "custom_code": "both", "forward_query": true, "forward_path": true}`)
	a.create(`{"original_url": "https://example.com/x?a=b#c", "custom_code": "none"}`)
	for path, location := range map[string]string{
		"/both":                      "https://example.com/x?a=b#c",
		"/both?q=1":                  "https://example.com/x?a=b&q=1#c",
		"/both/y//z/?q=%2F":          "https://example.com/x/y//z/?a=b&q=%2F#c",
		"/both/":                     "https://example.com/x/?a=b#c",
		"/none?q=1":                  "https://example.com/x?a=b#c",
		"http://wp.example/both/y?q": "https://example.com/x/y?a=b&q#c",
	} {
		require.Equal(t, 302, a.locate(path, location), path)
	}
	for path, status := range map[string]int{"/none/": 404, "/none/y": 404, "/both/../x": 400, "/both/%2e%2e": 400, "/unknown/y": 404, "/%62oth": 404} {
		require.Equal(t, status, a.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), path)
	}
	require.Equal(t, 405, a.do(call{method: http.MethodDelete, path: "/both"}).StatusCode)
}

func TestNoConditionKeepsAVisitorFromARedirect(t *testing.T) {
	a := start(t)
	for _, status := range []string{"301", "302", "307", "308"} {
		a.create(`{"original_url": "https://example.com/", "custom_code": "code-` + status + `", "redirect_status": ` + status + `}`)
		for _, header := range []map[string]string{
			{"If-None-Match": "*"},
			{"If-Modified-Since": time.Now().UTC().Format(http.TimeFormat)},
			{"If-Match": `"x"`},
			{"If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
			{"Range": "bytes=0-0"},
		} {
			res := a.do(call{path: "/code-" + status, header: header})
			require.Equal(t, status, res.Status[:3])
			require.Equal(t, "https://example.com/", res.Header.Get("Location"))
			require.NotContains(t, res.Header, "Etag")
			require.NotContains(t, res.Header, "Last-Modified")
		}
	}
}

func TestAssetsAreForEverybodyAndKnownByTheirTags(t *testing.T) {
	a := start(t)
	for path, contentType := range map[string]string{"/favicon.ico": "image/png", "/robots.txt": "text/plain; charset=utf-8"} {
		res := a.do(call{path: path, key: "none"})
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, contentType, res.Header.Get("Content-Type"))
		require.Equal(t, []string{waypost.AssetAge}, res.Header.Values("Cache-Control"))
		require.Equal(t, string(waypost.AssetAt(path[1:]).Body), res.text)
		again := a.do(call{path: path, key: "none", header: map[string]string{"If-None-Match": res.Header.Get("ETag")}})
		require.Equal(t, 304, again.StatusCode)
		require.Equal(t, res.Header.Get("ETag"), again.Header.Get("ETag"))
		require.Empty(t, again.text)
	}
	require.Zero(t, a.links.askedAbout())
}
