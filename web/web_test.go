package web_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/web"
)

func get(t *testing.T, path string, headers ...string) *http.Response {
	t.Helper()
	h, err := web.New()
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r io.Reader) string {
	t.Helper()
	all, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(all)
}

func TestConsole_ServesItsPageForEveryScreen(t *testing.T) {
	for _, path := range []string{"/console", "/console/", "/console/links", "/console/links/spring-sale", "/console/index"} {
		res := get(t, path)
		require.Equal(t, http.StatusOK, res.StatusCode, path)
		require.Equal(t, "text/html; charset=utf-8", res.Header.Get("Content-Type"))
		require.Equal(t, "no-cache", res.Header.Get("Cache-Control"), "the page names the newest files")
		require.Contains(t, res.Header.Get("Content-Security-Policy"), "script-src 'self';")
		require.NotContains(t, res.Header.Get("Content-Security-Policy"), "unsafe")
	}
}

func TestConsole_PageNamesFilesThatExist(t *testing.T) {
	page := text(t, get(t, "/console").Body)
	require.NotContains(t, page, "{{")
	names := regexp.MustCompile(`/console/[^"]+`).FindAllString(page, -1)
	require.Len(t, names, 3)
	for _, name := range names {
		res := get(t, name)
		require.Equal(t, http.StatusOK, res.StatusCode, name)
		require.Contains(t, res.Header.Get("Cache-Control"), "immutable")
		require.NotEmpty(t, res.Header.Get("Content-Type"))
		plain := text(t, res.Body)
		zipped := get(t, name, "Accept-Encoding", "gzip, br")
		require.Equal(t, "gzip", zipped.Header.Get("Content-Encoding"))
		z, err := gzip.NewReader(zipped.Body)
		require.NoError(t, err)
		require.Equal(t, plain, text(t, z))
	}
	require.NotRegexp(t, `(src|href)="(https?:)?//`, page, "nothing comes from another host")
}

func TestConsole_RefusesWhatItDoesNotHave(t *testing.T) {
	require.Equal(t, http.StatusNotFound, get(t, "/console/console-OLD.js").StatusCode)
	require.Equal(t, http.StatusNotFound, get(t, "/console/../web.go").StatusCode)
	h, err := web.New()
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console", strings.NewReader("x")))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}
