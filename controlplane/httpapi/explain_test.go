package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/rules"
)

// ruled sets the rules of the first link of a fake.
func ruled(t *testing.T, f *links, source rules.Source) {
	t.Helper()
	programme, err := rules.Compile(&source, &rules.Compiling{
		Status: 302, Now: f.now(), Target: func(url string) (string, string, error) { return url, url, nil },
	})
	require.NoError(t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[0].Rules, f.all[0].Programme = source.Encode(), programme
}

func TestExplain_ShowsFactsRulesAndResult(t *testing.T) {
	var f *links
	a := start(t, func(l *links, _ *httpapi.Config) { f = l })
	a.create(`{"original_url": "https://example.com/", "custom_code": "ruled"}`)
	split := rules.Split{By: rules.ByCookie, Variants: []rules.Variant{
		{Name: "red", Weight: 3, To: "https://example.com/red"}, {Weight: 1, To: "https://example.com/blue"},
	}}
	ruled(t, f, rules.Source{Rules: []rules.Rule{
		{Name: "here", To: "https://example.com/de", When: []rules.Condition{{Agent: []string{"ios"}}, {Country: []string{"DE", "AT"}}}},
		{When: []rules.Condition{{Language: []string{"fr"}}}, Split: &split},
		{To: "https://example.com/rest"},
	}})
	explain := func(query string) (facts, result map[string]any, rules []any) {
		t.Helper()
		res := a.get("/api/v1/explain?url=ruled&" + query)
		require.Equal(t, 200, res.StatusCode, res.text)
		o := object(t, res.text)
		return o["facts"].(map[string]any), o["result"].(map[string]any), o["rules"].([]any)
	}

	facts, result, all := explain("at=2026-12-01T09:00:00%2B01:00&country=FR&city=Lyon&agent=iphone&language=de-AT,fr%3Bq%3D0.2&address=192.0.2.7&query=a%3Db")
	require.Contains(t, facts["user_agent"], "iPhone")
	delete(facts, "user_agent")
	require.Equal(t, map[string]any{
		"at": "2026-12-01T08:00:00Z", "address": "192.0.2.7", "country": "FR", "city": "Lyon", "agent": []any{"ios", "mobile", "safari"},
		"languages": []any{"de-AT"}, "query": "a=b", "variant": 0.0, "read": []any{"agent", "language", "place", "cookie", "chance"},
	}, facts)
	require.Equal(t, []any{
		map[string]any{"id": 1.0, "name": "here", "outcome": "failed", "failed": 1.0, "condition": "country is one of DE, AT"},
		map[string]any{"id": 2.0, "name": "", "outcome": "failed", "failed": 0.0, "condition": "language is fr"},
		map[string]any{"id": 3.0, "name": "", "outcome": "matched", "failed": nil, "condition": ""},
	}, all)
	require.Equal(t, map[string]any{
		"status": 302.0, "location": "https://example.com/rest", "reason": "rule 3 matches", "gate": "", "not_found": false, "maintenance": false,
		"rule": 3.0, "variant": 0.0, "by_chance": false, "variants": []any{},
	}, result)

	_, result, all = explain("country=AT&agent=iphone")
	require.Equal(t, "rule 1 (here) matches", result["reason"])
	require.Equal(t, "not_reached", all[1].(map[string]any)["outcome"])

	for path, match := range map[string]string{
		"ruled": "exact", "/ruled": "exact", "ruled%252529": "404", "ruled%2529%3Fa%3Db": "trimmed", "ruled/": "trimmed", "ruled/x": "404",
		"https%3A%2F%2Fwp.example%2Fruled.%3Fa%3Db": "trimmed", "https://other.example/ruled": "404", "https://wp.example/": "404",
	} {
		res := a.get("/api/v1/explain?url=" + path)
		if match == "404" {
			requireProblem(t, res, 404, "not-found")
			continue
		}
		require.Equal(t, match, object(t, res.text)["match"], "%s: %s", path, res.text)
		if strings.Contains(path, "a%3Db") {
			require.Equal(t, "a=b", object(t, res.text)["facts"].(map[string]any)["query"])
		}
	}

	_, result, _ = explain("language=fr")
	require.Equal(t, true, result["by_chance"])
	require.Contains(t, result["reason"], "by chance, and a cookie keeps it")
	require.Equal(t, []any{
		map[string]any{"id": 1.0, "name": "red", "share": 0.75, "to": "https://example.com/red"},
		map[string]any{"id": 2.0, "name": "", "share": 0.25, "to": "https://example.com/blue"},
	}, result["variants"])
	_, result, _ = explain("language=fr&cookie=a%3Db%3B+waypost_variant%3D2")
	require.Equal(t, false, result["by_chance"])
	require.Equal(t, "rule 2 matches; variant 2 by the visitor's cookie", result["reason"])
	require.Equal(t, "https://example.com/blue", result["location"])

	for _, query := range []string{
		"country=de", "country=DEU", "country=UK", "at=soon", "at=0001-01-01T00:00:01Z", "address=fe80::1%25eth0", "address=x",
		"agent=" + strings.Repeat("x", 513), "edgy=1",
	} {
		requireProblem(t, a.get("/api/v1/explain?url=ruled&"+query), 422, "invalid")
	}
}

func TestExplain_TriesALinkThatIsNotSaved(t *testing.T) {
	var f *links
	a := start(t, func(l *links, _ *httpapi.Config) { f = l })
	res := a.get("/api/v1/explain?url=docs/a&domain=own.example&code=docs/*&target=https://example.com/{path}")
	require.Equal(t, 200, res.StatusCode, res.text)
	require.Equal(t, []any{map[string]any{"name": "path", "value": "docs/a"}}, object(t, res.text)["held"])
	draft := controlplane.NewLink{CustomCode: "docs/*", OriginalURL: "https://example.com/{path}", Domain: "own.example"}
	require.Equal(t, []controlplane.NewLink{draft}, f.drafts)
	for _, query := range []string{"code=docs/*", "target=https://example.com/", "code=a&target=https://example.com/&edge=eu-1"} {
		requireProblem(t, a.get("/api/v1/explain?url=docs/a&"+query), 422, "invalid")
	}
	require.Len(t, f.drafts, 1)
}

func TestExplain_AnEdgeAnswersOperators(t *testing.T) {
	var f *links
	o := &orders{}
	a := start(t, func(l *links, c *httpapi.Config) { f, c.Orders = l, o })
	a.create(`{"original_url": "https://example.com/", "custom_code": "ruled"}`)
	ruled(t, f, rules.Source{Rules: []rules.Rule{{To: "https://example.com/de", When: []rules.Condition{{Country: []string{"DE"}}}}}})
	built := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	explained := api.EdgeExplained{
		Code: "ruled", Match: "exact", Country: "DE", City: "Köln", PlacesBuilt: &built, Status: 302, Location: "https://example.com/de",
		Steps: []api.EdgeStep{{Rule: 1, Failed: -1}},
	}
	o.answer = func(api.EdgeOrder) api.EdgeOutcome {
		return api.EdgeOutcome{Position: &api.Sequence{Epoch: 1, Seq: 7}, Explained: &explained}
	}
	const path = "/api/v1/explain?url=ruled&edge=eu-1&address=192.0.2.7&at=2026-12-01T08:00:00Z&agent=bot&query=a%3Db"
	res := a.do(call{path: path, key: operatorKey})
	require.Equal(t, 200, res.StatusCode, res.text)
	shown := object(t, res.text)
	require.Equal(t, map[string]any{
		"node": "eu-1", "position": map[string]any{"epoch": 1.0, "seq": 7.0}, "found": true, "current": true,
		"places_built_at": "2026-11-01T00:00:00Z",
	}, shown["edge"])
	require.Equal(t, "DE", shown["facts"].(map[string]any)["country"])
	require.Equal(t, "matched", shown["rules"].([]any)[0].(map[string]any)["outcome"])
	require.Equal(t, "https://example.com/de", shown["result"].(map[string]any)["location"])
	require.Equal(t, &api.EdgeQuestion{
		Path: "ruled", At: time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC), Address: "192.0.2.7", UserAgent: rules.SampleAgent("bot"), Query: "a=b",
	}, o.given[0].Question)

	explained = api.EdgeExplained{Status: 404}
	shown = object(t, a.do(call{path: path, key: operatorKey}).text)
	require.Equal(t, "the edge does not have the link", shown["result"].(map[string]any)["reason"])
	requireProblem(t, a.do(call{path: path, key: readKey}), 403, "forbidden")
	requireProblem(t, a.do(call{path: strings.Replace(path, "eu-1", "eu-9", 1), key: operatorKey}), 404, "not-found")
	requireProblem(t, a.do(call{path: path + "&cookie=%00", key: operatorKey}), 422, "invalid")
	require.Len(t, o.given, 2)
}
