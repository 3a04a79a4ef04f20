package httpapi_test

import (
	"cmp"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
)

// operations returns the document's operations as "METHOD /path".
func operations(t *testing.T, document map[string]any) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for path, item := range document["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			all[strings.ToUpper(method)+" "+path] = operation.(map[string]any)
		}
	}
	return all
}

// startWithEverything starts an API that has all operations.
func startWithEverything(t *testing.T) *testAPI {
	t.Helper()
	return startWithKeys(t, &fakeKeys{space: aSpace()}, func(l *links, c *httpapi.Config) {
		c.Cleanup = cleanup{}
		c.Domains = &domains{targets: waypost.DomainTargets{Root: []byte("https://example.com/")}}
		c.Nodes = &edgeNodes{}
		stopping := make(chan struct{}) // a stream ends after its first events
		close(stopping)
		c.Stopping = stopping
		c.Clicks = &statistics{links: l, now: time.Now(), salts: map[string]bool{"2026-03-30": true}}
	})
}

func TestEveryDocumentedRouteAnswersAsDocumented(t *testing.T) {
	const (
		item  = `{"original_url": "https://example.com/", "custom_code": "mine"}`
		step  = `{"steps": [{"action": "drain", "range": 1}]}`
		text  = "text/plain"
		found = `{"original_url": "https://example.com/", "dedupe": true}`
		many  = `{"links": [{"original_url": "https://example.com/"}]}`
	)
	named := func(key string) map[string]string { return map[string]string{"Idempotency-Key": key} }
	spoilt := map[string]string{"Content-Type": text}
	a := startWithEverything(t)
	a.links.all = []waypost.Link{{Code: "lives", Location: "https://example.com/", RedirectStatus: 307, Workspace: 1}}
	calls := map[string][]call{
		"GET /":                   {{}, {host: "wp.example"}},
		"GET /health":             {{}},
		"GET /{code}":             {{path: "/lives"}, {path: "/unknown"}, {method: http.MethodHead, path: "/lives"}},
		"GET /api/v1/urls":        {{}, {path: "/api/v1/urls?limit=0"}, {path: "/api/v1/urls?cursor=x"}, {key: "none"}, {key: writeKey}},
		"GET /api/v1/urls/export": {{}, {path: "/api/v1/urls/export?format=csv"}, {path: "/api/v1/urls/export?format=xml"}, {path: "/api/v1/urls/export?after=x"}, {key: "none"}, {key: writeKey}},
		"GET /api/v1/live":        {{}, {key: "none"}},
		"GET /api/v1/tags":        {{}, {path: "/api/v1/tags?limit=0"}, {key: "none"}, {key: writeKey}},
		"POST /api/v1/urls":       {{body: item}, {body: item}, {body: found}, {path: "/api/v1/urls?wait=all", body: found}, {body: found, header: named("k")}, {body: found, header: named("k")}, {body: item, header: named("k")}, {body: item, header: named("busy")}, {body: "{"}, {body: "{}"}, {body: item, header: spoilt}, {key: "none"}, {key: readKey}, {body: strings.Repeat(" ", 1<<20+1)}},
		"POST /api/v1/urls/bulk":  {{body: `{"links": [1]}`}, {body: many, header: named("k")}, {body: many, header: named("k")}, {body: many, header: named("busy")}, {body: "{"}, {body: "{}"}, {body: item, header: spoilt}, {key: "none"}, {key: readKey}},
		"POST /shorten": {{body: `{"url": "https://example.com/"}`}, {
			body:   `{"url": "https://example.com/"}`,
			header: named("k"),
		}, {body: `{"url": "https://example.com/"}`, header: named("k")}, {body: `{"url": "https://example.com/b"}`, header: named("k")}, {body: "{"}, {body: "{}"}, {body: item, header: spoilt}, {key: "none"}, {key: readKey}},
		"GET /api/v1/urls/{code}": {
			{path: "/api/v1/urls/lives"},
			{
				path:   "/api/v1/urls/lives",
				header: map[string]string{"If-None-Match": "*"},
			},
			{
				path:   "/api/v1/urls/lives",
				header: map[string]string{"If-None-Match": "x"},
			},
			{path: "/api/v1/urls/lives?domain=" + strings.Repeat("x", 254)},
			{path: "/api/v1/urls/unknown"},
			{path: "/api/v1/urls/lives", key: "none"},
			{path: "/api/v1/urls/lives", key: writeKey},
		},
		"GET /api/v1/urls/{code}/history": {
			{path: "/api/v1/urls/lives/history"},
			{path: "/api/v1/urls/lives/history?limit=0"},
			{path: "/api/v1/urls/unknown/history"},
			{path: "/api/v1/urls/lives/history", key: "none"},
			{path: "/api/v1/urls/lives/history", key: writeKey},
		},
		"GET /api/v1/explain": {
			{path: "/api/v1/explain?url=lives&agent=iphone&country=DE&address=192.0.2.7"},
			{path: "/api/v1/explain?url=lives&country=de"},
			{path: "/api/v1/explain?url=lives&address=here"},
			{path: "/api/v1/explain?url=unknown"},
			{path: "/api/v1/explain?url=lives", key: "none"},
			{path: "/api/v1/explain?url=lives", key: writeKey},
		},
		"GET /api/v1/urls/{code}/qr": {
			{path: "/api/v1/urls/lives/qr?format=png"},
			{path: "/api/v1/urls/lives/qr?format=text"},
			{path: "/api/v1/urls/lives/qr", header: map[string]string{"If-None-Match": "*"}},
			{path: "/api/v1/urls/lives/qr?size=63"},
			{path: "/api/v1/urls/unknown/qr"},
			{path: "/api/v1/urls/lives/qr", key: "none"},
			{path: "/api/v1/urls/lives/qr", key: writeKey},
		},
		"GET /api/v1/urls/{code}/stats": {
			{path: "/api/v1/urls/lives/stats"},
			{path: "/api/v1/urls/lives/stats", header: map[string]string{"Accept": "text/csv"}},
			{path: "/api/v1/urls/lives/stats?tz=Mars"},
			{path: "/api/v1/urls/unknown/stats"},
			{path: "/api/v1/urls/lives/stats", key: "none"},
			{path: "/api/v1/urls/lives/stats", key: writeKey},
		},
		"GET /api/v1/stats": {
			{key: statsKey},
			{key: statsKey, header: map[string]string{"Accept": "text/csv"}},
			{path: "/api/v1/stats?interval=year", key: statsKey},
			{path: "/api/v1/stats?domain=unknown.example", key: statsKey},
			{path: "/api/v1/stats?tag=spring", key: statsKey},
			{key: "none"},
			{key: writeKey},
		},
		"GET /api/v1/stats/tags":     {{key: statsKey}, {path: "/api/v1/stats/tags?limit=0", key: statsKey}, {key: "none"}, {key: writeKey}},
		"GET /api/v1/stats/domains":  {{key: statsKey}, {path: "/api/v1/stats/domains?limit=0", key: statsKey}, {key: "none"}, {key: writeKey}},
		"GET /api/v1/stats/creators": {{key: statsKey}, {path: "/api/v1/stats/creators?limit=0", key: statsKey}, {key: "none"}, {key: writeKey}},
		"GET /api/v1/stats/crossed": {
			{key: statsKey},
			{path: "/api/v1/stats/crossed?rows=x", key: statsKey},
			{path: "/api/v1/stats/crossed?domain=unknown.example", key: statsKey},
			{key: "none"},
			{key: writeKey},
		},
		"GET /api/v1/stats/links": {
			{path: "/api/v1/stats/links?link=lives"},
			{path: "/api/v1/stats/links"},
			{path: "/api/v1/stats/links?link=lives&tz=Mars"},
			{path: "/api/v1/stats/links?link=lives", key: "none"},
			{path: "/api/v1/stats/links?link=lives", key: writeKey},
		},
		"GET /api/v1/stats/views": {{key: statsKey}, {key: "none"}, {key: writeKey}},
		"POST /api/v1/stats/views": {
			{body: `{"name": "x"}`},
			{body: `{"name": "taken"}`},
			{body: `{"name": "x", "public": true, "short_code": "unknown"}`},
			{body: `{"name": "x", "days": 1}`},
			{body: `{"name": "x"}`, key: "none"},
			{body: `{"name": "x"}`, key: readKey},
		},
		"PATCH /api/v1/stats/views/{id}": {
			{path: "/api/v1/stats/views/3", body: `{"name": "x"}`}, {path: "/api/v1/stats/views/4", body: `{"name": "x"}`},
		},
		"DELETE /api/v1/stats/views/{id}": {{path: "/api/v1/stats/views/3"}, {path: "/api/v1/stats/views/4"}},
		"GET /api/v1/public/{secret}":     {{path: "/api/v1/public/s3cret", key: "none"}, {path: "/api/v1/public/x", key: "none"}},
		"GET /api/v1/stats/unknown": {
			{path: "/api/v1/stats/unknown?domain=go.example.com&from=2026-03-01&to=2026-03-02", key: statsKey},
			{path: "/api/v1/stats/unknown?limit=1001", key: statsKey},
			{path: "/api/v1/stats/unknown?domain=unknown.example", key: statsKey},
			{path: "/api/v1/stats/unknown", key: "none"},
			{path: "/api/v1/stats/unknown", key: writeKey},
		},
		"DELETE /api/v1/urls/{code}/clicks": {
			{path: "/api/v1/urls/lives/clicks", key: operatorKey},
			{path: "/api/v1/urls/unknown/clicks", key: operatorKey},
			{path: "/api/v1/urls/lives/clicks?domain=" + strings.Repeat("a", 254), key: operatorKey},
			{path: "/api/v1/urls/lives/clicks", key: "none"},
			{path: "/api/v1/urls/lives/clicks", key: fullKey},
		},
		"POST /api/admin/edge-enrolments": {
			{key: operatorKey, body: `{"region": "eu", "node": "eu-1"}`},
			{key: operatorKey, body: `{"region": "full"}`},
			{key: operatorKey, body: `{"region": "eu", "expires_in_seconds": 86401}`},
			{key: operatorKey, body: `{"region": "eu", "role": "control"}`},
			{key: operatorKey, body: "{"},
			{key: operatorKey, body: "{}", header: spoilt},
			{key: "none", body: "{}"},
			{key: fullKey, body: `{"region": "eu"}`},
		},
		"GET /api/admin/edge-credentials": {{key: operatorKey}, {key: "none"}, {key: fullKey}},
		"DELETE /api/admin/edge-credentials/{node}": {
			{path: "/api/admin/edge-credentials/eu-1", key: operatorKey},
			{path: "/api/admin/edge-credentials/eu-2", key: operatorKey},
			{path: "/api/admin/edge-credentials/eu-1", key: "none"},
			{path: "/api/admin/edge-credentials/eu-1", key: fullKey},
		},
		"DELETE /api/admin/edges/{node}": {
			{path: "/api/admin/edges/eu-1", key: operatorKey},
			{path: "/api/admin/edges/eu-2", key: operatorKey},
			{path: "/api/admin/edges/eu-3", key: operatorKey},
			{path: "/api/admin/edges/eu-1", key: "none"},
			{path: "/api/admin/edges/eu-1", key: fullKey},
		},
		"DELETE /api/admin/visitor-salts/{day}": {
			{path: "/api/admin/visitor-salts/2026-03-30", key: operatorKey},
			{path: "/api/admin/visitor-salts/2026-03-30", key: operatorKey},
			{path: "/api/admin/visitor-salts/today", key: operatorKey},
			{path: "/api/admin/visitor-salts/2026-03-30", key: "none"},
			{path: "/api/admin/visitor-salts/2026-03-30", key: fullKey},
		},
		"PATCH /api/v1/urls/{code}": {
			{path: "/api/v1/urls/lives?wait=region", body: `{"title": "t"}`},
			{path: "/api/v1/urls/lives", body: `{"title": "t"}`, header: map[string]string{"If-Match": `"x"`}},
			{path: "/api/v1/urls/lives", body: "{"},
			{path: "/api/v1/urls/lives", body: `{"title": 1}`},
			{path: "/api/v1/urls/lives", body: "{}", header: spoilt},
			{path: "/api/v1/urls/lives", body: "{}", key: "none"},
			{path: "/api/v1/urls/lives", body: "{}", key: readKey},
			{path: "/api/v1/urls/unknown", body: "{}"},
		},
		"GET /api/v1/domains": {{}, {key: "none"}, {key: writeKey}},
		"POST /api/v1/domains": {
			{path: "/api/v1/domains?wait=all", body: `{"host": "own.example"}`, key: operatorKey},
			{body: `{"host": "taken.example"}`, key: operatorKey},
			{body: `{"host": ""}`, key: operatorKey},
			{body: "{", key: operatorKey},
			{body: "{}", key: operatorKey, header: spoilt},
			{body: "{}", key: "none"},
			{body: "{}", key: fullKey},
		},
		"PATCH /api/v1/domains/{id}": {
			{path: "/api/v1/domains/1?wait=all", key: operatorKey, body: `{"root_url": "https://example.com/"}`},
			{path: "/api/v1/domains/9", key: operatorKey, body: `{"root_url": "https://example.com/"}`},
			{path: "/api/v1/domains/x", key: operatorKey, body: "{}"},
			{path: "/api/v1/domains/1", key: operatorKey, body: "{"},
			{path: "/api/v1/domains/1", key: fullKey, body: "{}"},
			{path: "/api/v1/domains/1", key: "none", body: "{}"},
		},
		"DELETE /api/v1/domains/{id}": {
			{path: "/api/v1/domains/7?force=true&wait=all", key: operatorKey},
			{path: "/api/v1/domains/7", key: operatorKey},
			{path: "/api/v1/domains/1", key: operatorKey},
			{path: "/api/v1/domains/9", key: operatorKey},
			{path: "/api/v1/domains/x", key: operatorKey},
			{path: "/api/v1/domains/7", key: fullKey},
			{path: "/api/v1/domains/7", key: "none"},
		},
		"GET /api/admin/domains": {{key: operatorKey}, {key: fullKey}, {key: "none"}},
		"POST /api/v1/domains/{id}/verify": {
			{path: "/api/v1/domains/8/verify?wait=all", key: operatorKey},
			{path: "/api/v1/domains/7/verify", key: operatorKey},
			{path: "/api/v1/domains/8/verify", key: fullKey},
		},
		"POST /api/admin/domains/{id}/approve": {
			{path: "/api/admin/domains/9/approve", key: operatorKey},
			{path: "/api/admin/domains/9/approve", key: strangerKey},
		},
		"DELETE /api/admin/domains/{id}": {
			{path: "/api/admin/domains/9?force=true", key: operatorKey},
			{path: "/api/admin/domains/9", key: strangerKey},
		},
		"GET /stats/{code}": {{path: "/stats/lives"}, {path: "/stats/unknown"}, {
			path: "/stats/lives",
			key:  "none",
		}, {path: "/stats/lives", key: writeKey}},
		"DELETE /api/v1/urls/{code}": {
			{path: "/api/v1/urls/lives?wait=all"},
			{path: "/api/v1/urls/lives"},
			{path: "/api/v1/urls/lives?wait=x"},
			{path: "/api/v1/urls/lives", key: "none"},
			{path: "/api/v1/urls/lives", key: readKey},
		},

		"POST /api/v1/urls/{code}/restore": {
			{path: "/api/v1/urls/lives/restore?wait=all"},
			{path: "/api/v1/urls/unknown/restore"},
			{path: "/api/v1/urls/gone/restore"},
			{path: "/api/v1/urls/lives/restore?wait=x"},
			{path: "/api/v1/urls/lives/restore", key: "none"},
			{path: "/api/v1/urls/lives/restore", key: readKey},
		},

		"GET /api/admin/edges":         {{key: operatorKey}, {key: "none"}, {key: readKey}},
		"GET /api/v1/kgs/key":          {{}, {path: "/api/v1/kgs/key?service=" + strings.Repeat("s", 101)}, {key: "none"}, {key: readKey}},
		"POST /api/v1/kgs/keys/bulk":   {{body: `{"count": 1}`}, {body: "{"}, {body: "{}"}, {body: `{"count": 1}`, header: spoilt}, {key: "none"}, {key: readKey}, {body: strings.Repeat(" ", 1<<20+1)}},
		"POST /api/v1/kgs/keys/return": {{body: `{"keys": ["a"]}`}, {body: "{"}, {body: "{}"}, {body: `{"keys": ["a"]}`, header: spoilt}, {key: "none"}, {key: readKey}},
		"GET /api/v1/kgs/stats":        {{}, {key: "none"}, {key: writeKey}},
		"GET /api/admin/ranges":        {{key: operatorKey}, {key: "none"}, {key: fullKey}},
		"GET /api/admin/ranges/{id}": {
			{path: "/api/admin/ranges/1", key: operatorKey},
			{path: "/api/admin/ranges/9", key: operatorKey},
			{path: "/api/admin/ranges/x", key: operatorKey},
			{path: "/api/admin/ranges/1", key: "none"},
			{path: "/api/admin/ranges/1", key: fullKey},
		},
		"POST /api/admin/ranges/changes": {{body: step, key: operatorKey}, {body: "{", key: operatorKey}, {body: "{}", key: operatorKey}, {body: step, key: operatorKey, header: spoilt}, {key: "none"}, {key: fullKey}},
		"GET /api/admin/ranges/plan":     {{key: operatorKey}, {key: "none"}, {key: fullKey}},
		"GET /api/admin/ranges/decode/{code}": {
			{path: "/api/admin/ranges/decode/4gAbCdE", key: operatorKey},
			{path: "/api/admin/ranges/decode/4g", key: operatorKey},
			{path: "/api/admin/ranges/decode/4g", key: "none"},
			{path: "/api/admin/ranges/decode/4g", key: fullKey},
		},
		"GET /api/admin/blocks": {{key: operatorKey}, {path: "/api/admin/blocks?cursor=x", key: operatorKey}, {key: "none"}, {key: readKey}, {key: strangerKey}},
		"PUT /api/admin/blocks/{code}": {
			{path: "/api/admin/blocks/phish", key: operatorKey, body: `{"reason": "malware"}`},
			{path: "/api/admin/blocks/phish", key: operatorKey, body: `{"reason": ""}`},
			{path: "/api/admin/blocks/phish", key: operatorKey, body: `{"reason": "x", "policy": "maybe"}`},
			{path: "/api/admin/blocks/phish", key: operatorKey, body: `{`},
			{path: "/api/admin/blocks/none", key: operatorKey, body: `{"reason": "malware"}`},
			{path: "/api/admin/blocks/phish", key: strangerKey, body: `{"reason": "malware"}`},
			{path: "/api/admin/blocks/phish", key: "none", body: `{}`},
		},
		"DELETE /api/admin/blocks/{code}": {
			{path: "/api/admin/blocks/phish?reason=appeal", key: operatorKey},
			{path: "/api/admin/blocks/phish?reason=appeal", key: operatorKey},
			{path: "/api/admin/blocks/none?reason=appeal", key: operatorKey},
			{path: "/api/admin/blocks/phish?reason=appeal", key: strangerKey},
			{path: "/api/admin/blocks/phish", key: "none"},
		},
		"GET /api/admin/digest":        {{key: operatorKey}, {key: "none"}, {key: fullKey}},
		"POST /api/admin/digest":       {{body: "{}", key: operatorKey}, {body: "{", key: operatorKey}, {key: "none"}, {key: fullKey}},
		"GET /api/admin/cleanup/stats": {{key: operatorKey}, {key: "none"}, {key: fullKey}},
		"GET /api/admin/audit": {
			{key: operatorKey},
			{path: "/api/admin/audit?cursor=x", key: operatorKey},
			{path: "/api/admin/audit?limit=0", key: operatorKey},
			{key: "none"},
			{key: fullKey},
		},
	}

	documented := a.do(call{path: "/openapi.json", key: "none"})
	require.Equal(t, 200, documented.StatusCode)
	require.Equal(t, "application/json", documented.Header.Get("Content-Type"))
	all := operations(t, object(t, documented.text))
	for name := range calls {
		require.Contains(t, all, name)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		operation := all[name]
		require.NotEmpty(t, operation["operationId"], name)
		require.NotEmpty(t, operation["summary"], name)
		method, path, _ := strings.Cut(name, " ")
		if calls[name] == nil { // of access, edges and orders: suites of their own show what these do
			calls[name] = []call{{key: "none", body: "{"}, {key: readKey}, {key: "none", path: path + "?unheard=of"}}
		}
		for _, c := range calls[name] {
			if c.method == "" {
				c.method = method
			}
			if c.path == "" {
				c.path = path
			}
			requireDocumented(t, operation, a.do(c), name)
		}
	}
}

// operationRow matches an operation in a table of docs/api.md.
var operationRow = regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\| ([^|]*) \\| ([^|]*) \\| ([^|]*) \\|$")

func TestDocument_IsWhatThePageOfTheAPIShows(t *testing.T) {
	a := startWithEverything(t)
	shown := []string{"GET /openapi.json | This API as OpenAPI 3.1 | – | none"}
	for name, operation := range operations(t, object(t, a.get("/openapi.json").text)) {
		var query []string
		parameters, _ := operation["parameters"].([]any)
		for _, p := range parameters {
			if p := p.(map[string]any); p["in"] == "query" {
				query = append(query, "`"+p["name"].(string)+"`")
			}
		}
		var scopes []string
		for _, needed := range operation["security"].([]any) {
			if scope, ok := needed.(map[string]any)["bearer"].([]any); ok && len(scope) > 0 {
				scopes = append(scopes, "`"+scope[0].(string)+"`")
			}
		}
		scope := cmp.Or(strings.Join(scopes, " or "), "any credential")
		if len(operation["security"].([]any)) == 0 {
			scope = "none"
		}
		shown = append(shown, strings.Join([]string{name, operation["summary"].(string), cmp.Or(strings.Join(query, ", "), "–"), scope}, " | "))
	}
	page, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	var documented []string
	for _, row := range operationRow.FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, strings.Join(row[1:], " | "))
	}
	require.ElementsMatch(t, shown, documented)
}

func TestWhatOnlyTheKeyServiceRefusesIsDocumented(t *testing.T) {
	f := &fakeKeys{}
	a := startWithKeys(t, f)
	all := operations(t, object(t, a.get("/openapi.json").text))
	change := call{body: `{"steps": [{"action": "drain", "range": 1}]}`, key: operatorKey}
	for code, calls := range map[waypost.ErrorCode]map[string]call{
		waypost.EConflict:  {"POST /api/admin/ranges/changes": change},
		waypost.ENotFound:  {"POST /api/admin/ranges/changes": change},
		waypost.EExhausted: {"GET /api/v1/kgs/key": {}, "POST /api/v1/kgs/keys/bulk": {body: `{"count": 1}`}, "POST /api/admin/ranges/changes": change},
		waypost.EUnavailable: {
			"GET /api/v1/kgs/stats": {}, "GET /api/admin/ranges": {key: operatorKey},
			"GET /api/admin/audit": {key: operatorKey},
		},
	} {
		f.err = waypost.Errorf(code, "for a reason")
		for name, c := range calls {
			c.method, c.path, _ = strings.Cut(name, " ")
			res := a.do(c)
			require.Equal(t, "urn:waypost:problem:"+string(code), object(t, res.text)["type"], name)
			requireDocumented(t, all[name], res, name)
		}
	}
}

// requireDocumented sees that an operation's description knows an answer's
// status, type and headers.
func requireDocumented(t *testing.T, operation map[string]any, res answer, name string) {
	t.Helper()
	responses := operation["responses"].(map[string]any)
	response, ok := responses[strconv.Itoa(res.StatusCode)].(map[string]any)
	require.True(t, ok, "%s: %d is not documented", name, res.StatusCode)

	if contentType := res.Header.Get("Content-Type"); contentType != "" {
		contentType, _, _ = strings.Cut(contentType, ";")
		require.Contains(t, response["content"], contentType, "%s: %d", name, res.StatusCode)
	} else {
		require.NotContains(t, response, "content", "%s: %d", name, res.StatusCode)
	}
	described, _ := response["headers"].(map[string]any)
	for _, header := range []string{
		"Location", "Waypost-Position", "WWW-Authenticate", "Retry-After", "Vary",
		"Content-Disposition", "ETag", "Waypost-Applied", "Idempotency-Replayed",
	} {
		if res.Header.Get(header) != "" {
			require.Contains(t, described, header, "%s: %d", name, res.StatusCode)
		}
	}
}

func TestTheDocumentSaysWhatNeedsAKey(t *testing.T) {
	public := []string{"GET /", "GET /health", "GET /{code}", "POST /api/v1/session", "POST /api/v1/invitation", "GET /api/v1/public/{secret}"}
	signed := []string{"/api/v1/me", "/api/v1/session", "/api/v1/keys", "/api/v1/live"}
	admin := []string{"/admin/", "/api/v1/users", "/clicks"}
	for name, anonymous := range map[string]*controlplane.Actor{"always": nil, "or none": {}} {
		a := startWithKeys(t, &fakeKeys{}, func(_ *links, c *httpapi.Config) { c.Anonymous = anonymous })
		document := object(t, a.get("/openapi.json").text)
		require.Equal(t, "3.1.0", document["openapi"])
		require.Equal(t, "1.2.3", document["info"].(map[string]any)["version"])
		schemes := document["components"].(map[string]any)["securitySchemes"].(map[string]any)
		require.Len(t, schemes, 3, name)
		for operation, description := range operations(t, document) {
			if slices.Contains(public, operation) {
				require.Empty(t, description["security"], operation)
				require.Contains(t, description, "security", operation)
				continue
			}
			scopes := []string{"links:write"}
			switch {
			case slices.ContainsFunc(signed, func(path string) bool { return strings.Contains(operation, " "+path) }):
				scopes = nil
			case slices.ContainsFunc(admin, func(path string) bool { return strings.Contains(operation, path) }),
				strings.HasSuffix(operation, "PATCH /api/v1/workspace"), strings.Contains(operation, "/api/v1/domains") && !strings.HasPrefix(operation, "GET"):
				scopes = []string{"admin"}
			case strings.HasSuffix(operation, "GET /api/v1/workspace"):
				scopes = []string{"links:read", "analytics:read"}
			case strings.HasSuffix(operation, " /api/v1/stats"), strings.HasSuffix(operation, "/stats/unknown"),
				strings.HasSuffix(operation, "/stats/tags"), strings.HasSuffix(operation, "/stats/domains"), strings.HasSuffix(operation, "/stats/creators"),
				strings.HasSuffix(operation, "/stats/crossed"), strings.HasSuffix(operation, "GET /api/v1/stats/views"):
				scopes = []string{"analytics:read"}
			case strings.HasSuffix(operation, "/kgs/key"), strings.HasSuffix(operation, "/refused"), strings.Contains(operation, "/stats/views"):
			case strings.Contains(operation, "/stats") && !strings.Contains(operation, "/kgs/"):
				scopes = []string{"analytics:read", "links:read"}
			case strings.HasPrefix(operation, http.MethodGet):
				scopes = []string{"links:read"}
			}
			var want []any
			for _, scope := range scopes {
				want = append(want, map[string]any{"bearer": []any{scope}}, map[string]any{"apiKey": []any{scope}}, map[string]any{"session": []any{scope}})
			}
			if scopes == nil {
				want = append(want, map[string]any{"bearer": []any{}}, map[string]any{"apiKey": []any{}}, map[string]any{"session": []any{}})
			}
			if anonymous != nil {
				want = append(want, map[string]any{})
			}
			require.Equal(t, want, description["security"], operation)
		}
	}
}

func TestTheDocumentRefersToNothingThatIsMissing(t *testing.T) {
	a := startWithKeys(t, &fakeKeys{})
	document := object(t, a.get("/openapi.json").text)
	schemas := document["components"].(map[string]any)["schemas"].(map[string]any)
	used := map[string]bool{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				name := strings.TrimPrefix(ref, "#/components/schemas/")
				require.Contains(t, schemas, name)
				used[name] = true
			}
			for _, inner := range v {
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	walk(document)
	require.Len(t, used, len(schemas), "and holds nothing that is not used: %v", used)

	wish := schemas["NewLink"].(map[string]any)
	require.Equal(t, []any{"original_url"}, wish["required"])
	require.Equal(t, false, wish["additionalProperties"])
	require.Contains(t, schemas["Link"].(map[string]any)["required"], "expires_at")
}
