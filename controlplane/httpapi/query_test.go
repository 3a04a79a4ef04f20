package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestAParameterThatNobodyKnowsIsRefusedOnEveryRouteOfPrograms(t *testing.T) {
	a := startWithKeys(t, &fakeKeys{space: aSpace()})
	all := operations(t, object(t, a.get("/openapi.json").text))
	fields := strings.NewReplacer("{code}", "lives", "{id}", "1", "{day}", "2026-03-30")
	for name, operation := range all {
		method, path, _ := strings.Cut(name, " ")
		c := call{method: method, path: fields.Replace(path) + "?actve=secret", key: operatorKey}
		if strings.HasPrefix(path, "/{code}") || path == "/" || path == "/health" {
			require.Less(t, a.do(c).StatusCode, 400+11, name) // 404 and 410 for the code
			continue
		}
		if method == http.MethodPost || method == http.MethodPatch {
			c.body = "{}"
		}
		for _, key := range []string{operatorKey, fullKey} {
			c.key = key
			if res := a.do(c); res.StatusCode != http.StatusForbidden {
				requireProblem(t, res, 422, "invalid")
				require.Contains(t, res.text, `{"location":"query.actve","message":"unknown parameter`, name)
				require.NotContains(t, res.text, "secret", name)
				requireDocumented(t, operation, res, name)
			}
		}
	}
}

func TestAQueryIsReadStrictly(t *testing.T) {
	a := start(t)
	a.links.all = []waypost.Link{{Code: "lives", Location: "https://example.com/", RedirectStatus: 302, Workspace: 1}}
	for query, want := range map[string]struct {
		status int
		says   string
	}{
		"":                         {200, ""},
		"tag=a&tag=b&limit=1":      {200, ""},
		"tag=":                     {200, ""},
		"tag=a&tag=":               {422, "query.tag"},
		"limit=1&limit=2":          {422, `{"location":"query.limit","message":"expected once"}`},
		"Limit=1":                  {422, `{"location":"query.Limit","message":"unknown parameter"}`},
		"a=1&b=2":                  {422, "query.b"},
		"a%ff=1":                   {422, "query.a\uFFFD"},
		"limit=%zz":                {400, "percent sign"},
		"limit=1;tag=b":            {400, "semicolon"},
		strings.Repeat("x", 1_000): {422, strings.Repeat("x", 64) + "…"},
	} {
		res := a.do(call{path: "/api/v1/urls?" + query})
		require.Equal(t, want.status, res.StatusCode, "%s: %s", query, res.text)
		require.Contains(t, res.text, want.says, query)
	}
	require.Equal(t, 302, a.do(call{path: "/lives?fbclid=1&x;y", key: "none"}).StatusCode, "visitors come with anything")
	require.Equal(t, 401, a.do(call{path: "/api/v1/urls?actve=true", key: "none"}).StatusCode, "strangers are told nothing")
}

func TestParameter_HeadersWithListsMayRepeat(t *testing.T) {
	a := start(t)
	a.links.all = []waypost.Link{{Code: "lives", Location: "https://example.com/", RedirectStatus: 302, Workspace: 1}}
	tag := a.get("/api/v1/urls/lives").Header.Get("ETag")
	require.NotEmpty(t, tag)
	for _, c := range []struct {
		method, path, body, header string
		values                     []string
		want                       int
	}{
		{"GET", "/api/v1/urls/lives", "", "If-None-Match", []string{`"x"`, tag}, 304},
		{"GET", "/api/v1/urls/lives", "", "If-None-Match", []string{`"x"`, `"y"`}, 200},
		{"PATCH", "/api/v1/urls/lives", "{}", "If-Match", []string{`"x"`, `"y"`}, 412},
		{"POST", "/api/v1/urls/bulk", `{"links":[{"original_url":"https://example.com/"}]}`, "Prefer", []string{"wait=1", "return=minimal"}, 200},
		{"POST", "/api/v1/urls", `{"original_url":"https://example.com/"}`, "Idempotency-Key", []string{"a", "b"}, 422},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, a.url+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		req.Header["Authorization"] = []string{"Bearer " + fullKey}
		req.Header[c.header] = c.values
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, c.want, res.StatusCode, "%s %v", c.header, c.values)
	}
}
