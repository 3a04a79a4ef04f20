package system_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/test/devtest"
)

// send asks the API of a development system.
func send(t *testing.T, method, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := visitor.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode, res.Header, string(text)
}

// After the API has reported that the edges have a change, they answer by it at once.
func TestWait_ReturnsWhenEveryEdgeHasTheChange(t *testing.T) {
	t.Parallel()
	s := twoEdges.For(t)
	api := s.State().API
	edges := s.State().Edges
	require.Len(t, edges, 2)
	eventually(t, time.Minute, "both edges report", func() bool {
		_, header, _ := send(t, http.MethodPost, api+"/api/v1/urls?wait=all", `{"original_url": "https://example.com/first"}`)
		return header.Get("Waypost-Applied") == "all; edges=2"
	})

	// An edge that stands still for long is not waited for. Then the same is written again.
	written := func(want int, method, url, body string) (text string) {
		t.Helper()
		eventually(t, time.Minute, "on both edges", func() bool {
			status, header, answer := send(t, method, url+"?wait=all&wait_timeout=10", body)
			require.Equal(t, want, status, answer)
			text = answer
			return header.Get("Waypost-Applied") == "all; edges=2"
		})
		return text
	}
	var took []time.Duration
	for i := range 30 {
		began := time.Now()
		text := written(201, http.MethodPost, api+"/api/v1/urls", fmt.Sprintf(`{"original_url": "https://example.com/%d"}`, i))
		took = append(took, time.Since(began))
		var l created
		require.NoError(t, json.Unmarshal([]byte(text), &l))
		for _, e := range edges {
			status, to, err := location(t.Context(), e.URL+"/"+l.Code)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("302 https://example.com/%d", i), fmt.Sprint(status, " ", to))
		}
		if i%10 > 0 {
			continue
		}
		for body, want := range map[string]string{`{"original_url": "https://example.com/new"}`: "302 https://example.com/new", `{"active": false}`: "410 "} {
			if want == "410 " && i > 0 {
				continue
			}
			written(200, http.MethodPatch, api+"/api/v1/urls/"+l.Code, body)
			for _, e := range edges {
				status, to, err := location(t.Context(), e.URL+"/"+l.Code)
				require.NoError(t, err)
				require.Equal(t, want, fmt.Sprint(status, " ", to))
			}
			written(200, http.MethodPatch, api+"/api/v1/urls/"+l.Code, `{"active": true}`)
		}
	}
	slices.Sort(took)
	t.Logf("a create that waits for two edges: p50 %s, p90 %s", took[len(took)/2], took[len(took)*9/10])

	here, header, _ := send(t, http.MethodPost, api+"/api/v1/urls?wait=region", `{"original_url": "https://example.com/"}`)
	require.Equal(t, 201, here)
	require.Regexp(t, `^(region; edges=[012]|timeout; behind=.+)$`, header.Get("Waypost-Applied"), "an edge may stand still for long")
}

func TestCreate_MakesOneLinkOf64EqualRequests(t *testing.T) {
	t.Parallel()
	s := twoEdges.For(t)
	api := s.State().API
	type reply struct {
		status   int
		text     string
		location string
		position string
	}
	together := func(body string, header ...string) []reply {
		replies := make([]reply, 64)
		var wg sync.WaitGroup
		for i := range replies {
			wg.Go(func() {
				status, h, text := send(t, http.MethodPost, api+"/api/v1/urls", body, header...)
				replies[i] = reply{status, text, h.Get("Location"), h.Get("Waypost-Position")}
			})
		}
		wg.Wait()
		return replies
	}
	once := together(`{"original_url": "https://example.com/once", "title": "é <&>"}`, "Idempotency-Key", "my key")
	for _, r := range once {
		require.Equal(t, once[0], r, "one answer")
	}
	require.Equal(t, 201, once[0].status)

	codes := map[string]int{}
	for _, r := range together(`{"original_url": "https://example.com/dedupe?utm_source=x", "dedupe": true}`) {
		var l created
		require.NoError(t, json.Unmarshal([]byte(r.text), &l))
		require.Contains(t, []int{200, 201}, r.status)
		codes[l.Code] += r.status - 200
	}
	require.Len(t, codes, 1, "one link")
	for _, news := range codes {
		require.Equal(t, 1, news, "one of all was told that it is new")
	}
	links := make(map[string]int)
	for _, l := range listed(t, s.State()) {
		links[l.Target]++
	}
	require.Equal(t, 1, links["https://example.com/once"])
	require.Equal(t, 1, links["https://example.com/dedupe?utm_source=x"])
}

func TestCommands_ChangeLinksAndDomains(t *testing.T) {
	t.Parallel()
	s := twoEdges.For(t)
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	run := func(args ...string) string {
		t.Helper()
		r := devtest.Run(t, env, args...)
		require.Zero(t, r.Code, r.Stderr)
		return r.Stdout
	}
	base, err := url.Parse(s.State().Edges[0].URL)
	require.NoError(t, err)
	run("domains", "add", "Bücher.example")
	require.Contains(t, run("domains", "list"), "xn--bcher-kva.example")
	short := run("links", "create", "https://example.com/a", "--domain", "bücher.example", "--code", "same", "--tag", "x", "--tag",
		"y", "--metadata", `{"n": 1}`, "--expires-at", "2099-01-01T00:00:00Z")
	require.Equal(t, "http://xn--bcher-kva.example:"+base.Port()+"/same\n", short)
	run("links", "create", "https://example.com/b", "--code", "same")
	first := run("links", "create", "https://example.com/one", "--idempotency-key", "k")
	require.Equal(t, first, run("links", "create", "https://example.com/one", "--idempotency-key", "k"))
	r := devtest.Run(t, env, "links", "create", "https://example.com/two", "--idempotency-key", "k")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "this Idempotency-Key was used for another request")
	one := run("links", "create", "https://example.com/a/", "--dedupe")
	require.Equal(t, one, run("links", "create", "HTTPS://EXAMPLE.com/a?gclid=1", "--dedupe"))
	r = devtest.Run(t, env, "links", "create", "https://аррӏе.example/")
	require.Zero(t, r.Code)
	require.Contains(t, r.Stderr, "warning: the part")

	got := run("links", "update", "same", "--domain", "bücher.example", "--target", "https://example.com/c", "--no-tags",
		"--never-expires", "--title", "T", "--wait", "all")
	require.Contains(t, got, "https://example.com/c")
	require.Contains(t, got, "expires      never")
	require.Contains(t, run("links", "get", "same"), "https://example.com/b")
	require.Contains(t, run("links", "get", "same", "--domain", "bücher.example", "--output", "json"), `"tags": []`)
	for host, want := range map[string]string{"xn--bcher-kva.example": "https://example.com/c", base.Host: "https://example.com/b"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.State().Edges[0].URL+"/same", http.NoBody)
		require.NoError(t, err)
		req.Host = host
		eventually(t, time.Minute, host, func() bool {
			res, err := visitor.Do(req)
			if err != nil {
				return false
			}
			return res.Body.Close() == nil && res.Header.Get("Location") == want
		})
	}
	for _, wrong := range [][]string{
		{"links", "update", "same"},
		{"links", "update", "same", "--enable", "--disable"},
		{"links", "create", "https://example.com/", "--metadata", "[]"},
		{"links", "create", "https://example.com/", "--wait", "some"},
		{"links", "delete", "same", "--yes", "--wait-timeout", "1s"},
		{"links", "delete", "same"},
		{"links", "create", "https://example.com/", "--expires-at", "soon"},
	} {
		require.Equal(t, 64, devtest.Run(t, env, wrong...).Code, wrong)
	}
	r = devtest.Run(t, env, "domains", "remove", "xn--bcher-kva.example")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "the domain has links")
	status := func() (code int) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.State().Edges[1].URL+"/same", http.NoBody)
		require.NoError(t, err)
		req.Host = "xn--bcher-kva.example"
		res, err := visitor.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	run("links", "delete", "https://xn--bcher-kva.example/same", "--yes", "--wait", "all")
	require.Equal(t, 410, status())
	r = devtest.Run(t, env, "links", "create", "https://example.com/", "--domain", "bücher.example", "--code", "same")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Stderr, "is that of a link that was deleted: restore that link")
	run("links", "restore", "same", "--domain", "bücher.example", "--wait", "all")
	require.Equal(t, 302, status(), "deletions can be undone")
	require.Contains(t, run("links", "get", "same", "--domain", "bücher.example"), "title        T")
	run("links", "delete", "same", "--domain", "bücher.example", "--yes", "--wait", "all")
	require.Equal(t, 410, status())
	run("domains", "remove", "xn--bcher-kva.example")
	require.NotContains(t, run("domains", "list"), "xn--bcher-kva.example")
	require.True(t, bytes.Contains([]byte(run("links", "get", "same")), []byte("https://example.com/b")))
}
