package httpapi_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
)

// testAPI is the API on a real listener, with its links in memory.
type testAPI struct {
	t     *testing.T
	links *links
	url   string
	// client follows no redirect.
	client *http.Client
}

// start serves the API until the test ends. Changes may spoil the links and the
// configuration before.
func start(t *testing.T, changes ...func(*links, *httpapi.Config)) *testAPI {
	t.Helper()
	f := newLinks()
	cfg := services(f)
	cfg.Version, cfg.RequestTimeout = "1.2.3", time.Minute
	for _, change := range changes {
		change(f, &cfg)
	}
	server := httptest.NewServer(httpapi.New(cfg))
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &testAPI{t: t, links: f, url: server.URL, client: client}
}

// answer is a response that has been read to its end.
type answer struct {
	*http.Response
	text string
}

// call is a request; fields left out are those of a valid one.
type call struct {
	method string // default GET
	path   string
	body   string
	key    string // default fullKey; "none" for none
	header map[string]string
	host   string
}

func (a *testAPI) do(c call) answer {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), c.method, a.url+c.path, strings.NewReader(c.body))
	require.NoError(a.t, err)
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	switch c.key {
	case "":
		req.Header.Set("X-Api-Key", fullKey)
	case "none":
	default:
		req.Header.Set("X-Api-Key", c.key)
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	req.Host = c.host
	res, err := a.client.Do(req)
	require.NoError(a.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(a.t, err)
	require.NoError(a.t, res.Body.Close())
	return answer{res, string(text)}
}

func (a *testAPI) get(path string) answer { a.t.Helper(); return a.do(call{path: path}) }

func (a *testAPI) post(path, body string) answer {
	a.t.Helper()
	return a.do(call{method: http.MethodPost, path: path, body: body})
}

// create makes a link and returns it as it was answered.
func (a *testAPI) create(body string) map[string]any {
	a.t.Helper()
	res := a.post("/api/v1/urls", body)
	require.Equal(a.t, http.StatusCreated, res.StatusCode, res.text)
	return object(a.t, res.text)
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// requireProblem sees that an answer is a problem document, and returns it.
func requireProblem(t *testing.T, res answer, status int, code string) map[string]any {
	t.Helper()
	require.Equal(t, status, res.StatusCode, res.text)
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	p := object(t, res.text)
	require.Equal(t, "urn:waypost:problem:"+code, p["type"])
	require.EqualValues(t, status, p["status"])
	require.NotEmpty(t, p["title"])
	require.NotEmpty(t, p["detail"])
	names := maps.Clone(p)
	for _, known := range []string{"type", "title", "status", "detail", "errors"} {
		delete(names, known)
	}
	require.Empty(t, names, "a problem has no other fields")
	return p
}
