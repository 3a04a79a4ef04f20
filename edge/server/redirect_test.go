package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

func TestRedirect(t *testing.T) {
	links := newMemoryLinks()
	_, addr := serve(t, server.Config{Links: links, Clock: func() time.Time { return time.UnixMilli(expires - 10_500) }})

	for name, c := range map[string]struct {
		path, location, cache string
		status                int
	}{
		"a link answers 302 and is not stored":            {"/found302", target, "private, no-store", 302},
		"a 307 link is not stored":                        {"/found307", target, "private, no-store", 307},
		"a 301 link may be kept for a day":                {"/found301", target, "private, max-age=86400", 301},
		"a 308 link may be kept for a day":                {"/found308", target, "private, max-age=86400", 308},
		"a 301 link that expires is not kept longer":      {"/expire301", target, "private, max-age=10", 301},
		"a slash behind a link is forgiven":               {"/found302/", target, "private, no-store", 302},
		"punctuation behind a link is forgiven":           {"/found302%29.?q", target, "private, no-store", 302},
		"a query is ignored":                              {"/found302?utm_source=x&a=/../b", target, "private, no-store", 302},
		"a link not yet expired redirects":                {"/expiring", target, "private, no-store", 302},
		"a target in absolute form is taken apart":        {"http://wayp.example/found302?x", target, "private, no-store", 302},
		"a location of the greatest length is sent whole": {"/longlink", "https://example.org/" + strings.Repeat("x", waypost.MaxPayload-20), "private, no-store", 302},
	} {
		t.Run(name, func(t *testing.T) {
			res := get(t, addr, c.path, "wayp.example", "Accept: text/html")
			require.Equal(t, c.status, res.StatusCode)
			require.Equal(t, []string{c.location}, res.Header["Location"], "byte for byte")
			require.Equal(t, []string{c.cache}, res.Header["Cache-Control"])
			require.Empty(t, res.body)
			require.Equal(t, "0", res.Header.Get("Content-Length"))
			require.NotEmpty(t, res.Header.Get("Date"))
			require.NotContains(t, res.Header, "Server")
			require.NotContains(t, res.Header, "Content-Type")
			require.NotContains(t, res.Header, "Waypost-Stale")
			require.False(t, res.Close, "the connection stays")

			head := say(t, addr, "HEAD "+c.path+" HTTP/1.1\r\nHost: wayp.example\r\n\r\n")
			require.Equal(t, c.status, head.StatusCode)
			res.Header.Del("Date")
			head.Header.Del("Date")
			require.Equal(t, res.Header, head.Header, "HEAD says the same")
		})
	}
}

// TestAPermanentRedirectIsKeptForWholeSecondsAndNeverPastItsExpiry: what is left of the
// last second is no age that a header can say.
func TestAPermanentRedirectIsKeptForWholeSecondsAndNeverPastItsExpiry(t *testing.T) {
	for left, cache := range map[time.Duration]string{
		time.Millisecond: "private, no-store", 500 * time.Millisecond: "private, no-store", 999 * time.Millisecond: "private, no-store",
		time.Second: "private, max-age=1", 1500 * time.Millisecond: "private, max-age=1",
		24 * time.Hour: "private, max-age=86400", 24*time.Hour + time.Second: "private, max-age=86400",
	} {
		t.Run(left.String(), func(t *testing.T) {
			_, addr := serve(t, server.Config{Clock: func() time.Time { return time.UnixMilli(expires).Add(-left) }})
			for path, status := range map[string]int{"/expire301": 301, "/expire308": 308} {
				for _, lane := range []string{"X: by the express lane", "Sec-Purpose: none, by the handler"} {
					res := get(t, addr, path, "wayp.example", lane)
					require.Equal(t, status, res.StatusCode)
					require.Equal(t, []string{cache}, res.Header["Cache-Control"], lane)
				}
			}
		})
	}
}

func TestNoRedirect(t *testing.T) {
	_, addr := serve(t, server.Config{Clock: func() time.Time { return time.UnixMilli(expires) }})

	for name, c := range map[string]struct {
		path   string
		status int
	}{
		"an unknown code answers 404":                {"/unknown1", 404},
		"a code differs by case":                     {"/FOUND302", 404},
		"an expired link answers 410":                {"/expiring", 410},
		"a disabled link answers 410":                {"/disabled", 410},
		"a deleted link answers 410":                 {"/deleted1", 410},
		"and so do its aliases":                      {"/alias004", 410},
		"an alias leads to no alias":                 {"/alias002", 404},
		"nor to nothing":                             {"/alias003", 404},
		"a store that fails answers 503":             {"/failing1", 503},
		"a store that panics answers 500":            {"/panicked", 500},
		"CR and LF in a location are never sent":     {"/badCRLF1", 503},
		"NUL in a location is never sent":            {"/badNUL01", 503},
		"an empty location is never sent":            {"/badEmpty", 503},
		"a status that is no redirect is never sent": {"/badState", 503},
		"a path below a link answers 404":            {"/found302/x", 404},
		"a path below a link that is gone is gone":   {"/forwgone/x", 410},
		"a path that climbs answers 400":             {"/forward1/x/%2e%2e/y", 400},
		"a target without a host takes no path":      {"/forwbad1/x", 503},
	} {
		t.Run(name, func(t *testing.T) {
			for accept, html := range map[string]bool{
				"text/html,*/*;q=0.8": true, "*/*": false,
				"*/*\r\nAccept: text/html": true, "text/html;q=0.5\r\nAccept: application/json": false, // lines are one list
			} {
				res := say(t, addr, "GET "+c.path+" HTTP/1.1\r\nHost: wayp.example\r\nAccept: "+accept+"\r\n\r\n")
				contentType, body := server.ErrorBody(c.status, html)
				require.Equal(t, c.status, res.StatusCode)
				require.Equal(t, string(body), res.body)
				require.Equal(t, contentType, res.Header.Get("Content-Type"))
				require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
				require.Equal(t, "Accept", res.Header.Get("Vary"))
				require.Equal(t, c.status == 503, res.Header.Get("Retry-After") != "")
				require.NotContains(t, res.Header, "Location")
				require.NotContains(t, res.Header, "Set-Cookie")

				head := say(t, addr, "HEAD "+c.path+" HTTP/1.1\r\nHost: wayp.example\r\nAccept: "+accept+"\r\n\r\n")
				res.Header.Del("Date")
				head.Header.Del("Date")
				require.Equal(t, res.Header, head.Header, "HEAD says the same")
			}
		})
	}
}

func TestWhatHasNotTheShapeOfACodeAnswers404WithoutALookup(t *testing.T) {
	links := newMemoryLinks()
	_, addr := serve(t, server.Config{Links: links})

	for _, path := range []string{
		"/" + strings.Repeat("a", 129), "/..", "/../found302", "/%2e%2e/found302", "/./found302", "/%2566ound302",
		"//found302", "/found302%00", "/found302%0d%0aX:y", "/found302;x",
		"/found302#x", `/found302\`, "/found302%20", "/'%20OR%201=1--", "/caf\xc3", "//wayp.example/found302",
		"/http://wayp.example/found302",
		"http://wayp.example//found302", "/?found302/", "/" + strings.Repeat("a", 6000),
	} {
		t.Run(path[:min(len(path), 40)], func(t *testing.T) {
			res := get(t, addr, path, "wayp.example")
			if path == "/?found302/" { // the root, with a query
				require.Equal(t, 200, res.StatusCode)
				return
			}
			require.Equal(t, 404, res.StatusCode)
		})
	}
	require.Zero(t, links.lookups.Load())
}

func TestALinkExpiresAtItsInstantAndNotBefore(t *testing.T) {
	for name, c := range map[string]struct {
		now    int64
		status int
	}{
		"one millisecond before it redirects": {expires - 1, 302},
		"at the instant it is gone":           {expires, 410},
		"one millisecond after it is gone":    {expires + 1, 410},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := serve(t, server.Config{Clock: func() time.Time { return time.UnixMilli(c.now) }})
			require.Equal(t, c.status, get(t, addr, "/expiring", "wayp.example").StatusCode)
		})
	}
}

func TestTheRootTellsWhoAnswers(t *testing.T) {
	_, addr := serve(t, server.Config{Version: "1.2.3", Region: "eu-west-1", Node: "n1"})
	res := get(t, addr, "/", "wayp.example")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(res.body), &got))
	require.Equal(t, map[string]string{"service": "waypost", "version": "1.2.3", "region": "eu-west-1", "node": "n1"}, got)
	require.Equal(t, 200, get(t, addr, "http://wayp.example", "wayp.example").StatusCode)
}

func TestHealthAnswersFromMemory(t *testing.T) {
	links := newMemoryLinks()
	_, addr := serve(t, server.Config{Links: links, StrictHosts: true})
	res := get(t, addr, "/health", "10.0.0.1:8081")
	require.Equal(t, 200, res.StatusCode)
	require.JSONEq(t, `{"status":"healthy"}`, res.body)
	require.Zero(t, links.lookups.Load())
}

func TestAReplicaThatIsTooOldSaysSoAndServes(t *testing.T) {
	for name, c := range map[string]struct {
		bound, age time.Duration
		header     []string
	}{
		"above the bound": {time.Minute, 90*time.Second + 900*time.Millisecond, []string{"90"}},
		"at the bound":    {time.Minute, time.Minute, nil},
		"without a bound": {0, time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := serve(t, server.Config{MaxStaleness: c.bound, Staleness: func() time.Duration { return c.age }})
			res := get(t, addr, "/found302", "wayp.example")
			require.Equal(t, http.StatusFound, res.StatusCode)
			require.Equal(t, c.header, res.Header["Waypost-Stale"])
		})
	}
}
