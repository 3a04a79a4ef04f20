package server_test

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

func TestAPlusSignBehindACodeTellsWhereItLeads(t *testing.T) {
	recorded := &memoryClicks{}
	_, addr := serve(t, server.Config{Clicks: recorded, Clock: func() time.Time { return time.UnixMilli(expires - 1) }})
	res := get(t, addr, "/expire301+?utm=1", "wayp.example")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(res.body), &got))
	require.Equal(t, map[string]any{
		"short_code": "expire301", "location": target, "redirect_status": 301.0, "expires_at": "2100-01-01T00:00:00Z",
		"forward_query": false, "forward_path": false,
	}, got)

	page := get(t, addr, "/expire301+", "wayp.example", "Accept: text/html,*/*;q=0.8")
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	require.Contains(t, page.body, "<h1>example.org</h1>")
	head := say(t, addr, "HEAD /expire301+ HTTP/1.1\r\nHost: wayp.example\r\nAccept: text/html\r\n\r\n")
	for _, res := range []answer{res, page, head} {
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, []string{"no-store"}, res.Header["Cache-Control"], "it is never kept past a change")
		require.Equal(t, "Accept", res.Header.Get("Vary"))
		require.NotContains(t, res.Header, "Location")
		require.NotContains(t, res.Header, "Etag")
		for name, value := range server.PreviewHeaders() {
			require.Equal(t, []string{value}, res.Header[name])
		}
	}
	require.Empty(t, recorded.take(), "nobody has followed the link")
}

func TestAPreviewOfWhatIsNoLinkIsWhatTheLinkWouldBe(t *testing.T) {
	_, addr := serve(t, server.Config{Clock: func() time.Time { return time.UnixMilli(expires) }})
	for path, status := range map[string]int{
		"/expiring+": 410, "/deleted1+": 410, "/disabled+": 410, "/unknown1+": 404, "/abc+": 404, "/+": 404, "/found302++": 404,
		"/found302%2B": 404, "/health+": 404, "/robots.txt+": 404, "/failing1+": 503, "/badCRLF1+": 503, "/found302+/x": 404,
	} {
		res := get(t, addr, path, "wayp.example")
		require.Equal(t, status, res.StatusCode, path)
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	}
}

func TestAssetsAreForEverybodyAndLookUpNothing(t *testing.T) {
	links := newMemoryLinks()
	_, addr := serve(t, server.Config{Links: links, StrictHosts: true})
	for path, contentType := range map[string]string{"/favicon.ico": "image/png", "/robots.txt?x": "text/plain; charset=utf-8"} {
		res := get(t, addr, path, "unknown.example")
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, contentType, res.Header.Get("Content-Type"))
		require.Equal(t, []string{"public, max-age=86400"}, res.Header["Cache-Control"])
		require.NotEmpty(t, res.body)

		for header, status := range map[string]int{
			"If-None-Match: " + res.Header.Get("Etag"): 304, "If-None-Match: W/" + res.Header.Get("Etag"): 304, "If-None-Match: *": 304,
			`If-None-Match: "other"`: 200, "If-Modified-Since: " + time.Now().UTC().Format(time.RFC1123): 200, "Range: bytes=0-0": 200,
		} {
			again := get(t, addr, path, "unknown.example", header)
			require.Equal(t, status, again.StatusCode, header)
			require.Equal(t, status == 304, again.body == "", header)
			require.Equal(t, res.Header.Get("Etag"), again.Header.Get("Etag"))
			require.False(t, again.Close)
		}
	}
	require.Equal(t, "User-agent: *\nDisallow:\n", get(t, addr, "/robots.txt", "wayp.example").body)
	require.Zero(t, links.lookups.Load())
}

// TestHEADOfWhatIsNoLinkSaysWhatGETSays reads all that comes until the server closes, as
// a body behind the header of an answer to HEAD would be taken for the next answer.
func TestHEADOfWhatIsNoLinkSaysWhatGETSays(t *testing.T) {
	_, addr := serve(t, server.Config{Version: "1.2.3", Region: "eu-west-1", Node: "n1"})
	ask := func(method, path, lines string) (status string, header []string, body string) {
		conn := dial(t, addr)
		_, err := io.WriteString(conn, method+" "+path+" HTTP/1.1\r\nHost: wayp.example\r\nConnection: close\r\n"+lines+"\r\n")
		require.NoError(t, err)
		all, err := io.ReadAll(conn)
		require.NoError(t, err)
		head, body, ended := strings.Cut(string(all), "\r\n\r\n")
		require.True(t, ended)
		header = strings.Split(head, "\r\n")
		status = header[0]
		header = slices.DeleteFunc(header[1:], func(line string) bool { return strings.HasPrefix(line, "Date: ") })
		slices.Sort(header)
		return status, header, body
	}
	for _, path := range []string{"/favicon.ico", "/robots.txt", "/", "/health"} {
		status, header, body := ask("GET", path, "")
		require.Equal(t, "HTTP/1.1 200 OK", status, path)
		require.NotEmpty(t, body)
		require.Contains(t, header, "Content-Length: "+strconv.Itoa(len(body)))

		headStatus, headHeader, headBody := ask("HEAD", path, "")
		require.Equal(t, status, headStatus, path)
		require.Equal(t, header, headHeader, path)
		require.Empty(t, headBody, path)

		tagged := slices.IndexFunc(header, func(line string) bool { return strings.HasPrefix(line, "Etag: ") })
		require.Equal(t, path == "/favicon.ico" || path == "/robots.txt", tagged >= 0, path)
		if tagged < 0 {
			continue
		}
		known := "If-None-Match: " + strings.TrimPrefix(header[tagged], "Etag: ") + "\r\n"
		status, header, body = ask("GET", path, known)
		require.Equal(t, "HTTP/1.1 304 Not Modified", status, path)
		require.Empty(t, body, path)
		headStatus, headHeader, headBody = ask("HEAD", path, known)
		require.Equal(t, status, headStatus, path)
		require.Equal(t, header, headHeader, path)
		require.Empty(t, headBody, path)

		headStatus, _, headBody = ask("HEAD", path, "If-None-Match: \"other\"\r\n")
		require.Equal(t, "HTTP/1.1 200 OK", headStatus, path)
		require.Empty(t, headBody, path)
	}
}

// TestNoConditionKeepsAVisitorFromARedirect: a condition, or a range, is for what a
// GET would answer with 200 (RFC 9110, sections 13.2.1 and 14.2), and a 304 would hide
// a click.
func TestNoConditionKeepsAVisitorFromARedirect(t *testing.T) {
	recorded := &memoryClicks{}
	_, addr := serve(t, server.Config{Clicks: recorded})
	for _, path := range []string{"/found301", "/found302", "/found307", "/found308"} {
		for _, header := range []string{
			"If-None-Match: *", `If-None-Match: "x"`, "If-Modified-Since: " + time.Now().UTC().Format(time.RFC1123),
			`If-Match: "x"`, "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT", "Range: bytes=0-0", `If-Range: "x"`,
		} {
			res := get(t, addr, path, "wayp.example", header)
			require.Equal(t, path[len(path)-3:], res.Status[:3], header)
			require.Equal(t, target, res.Header.Get("Location"))
			require.NotContains(t, res.Header, "Etag")
			require.NotContains(t, res.Header, "Last-Modified")
			require.Len(t, recorded.take(), 1, header)
		}
	}
}
