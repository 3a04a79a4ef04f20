package httpapi_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane/httpapi"
)

func TestBlocks_AreSetListedShownAndEnded(t *testing.T) {
	a := start(t)
	require.Equal(t, 201, a.do(call{method: "POST", path: "/api/v1/urls", body: `{"original_url": "https://example.com/", "custom_code": "phish"}`}).StatusCode)
	require.NotContains(t, a.get("/api/v1/urls/phish").text, `"blocked"`)
	set := a.do(call{method: "PUT", path: "/api/admin/blocks/phish", key: operatorKey, body: `{"policy": "legal", "reason": "court order 7"}`})
	require.Equal(t, 200, set.StatusCode)
	const blocked = `{"short_code": "phish", "domain": "wp.example", "blocked": true, "policy": "legal", "reason": "court order 7",
		"at": "2030-03-17T17:46:40Z", "version": 1}`
	require.JSONEq(t, blocked, set.text)
	require.JSONEq(t, `{"blocks": [`+blocked+`], "next_cursor": ""}`, a.do(call{path: "/api/admin/blocks", key: operatorKey}).text)
	require.Equal(t, map[string]any{"policy": "legal", "reason": "court order 7", "since": "2030-03-17T17:46:40Z"},
		object(t, a.get("/api/v1/urls/phish").text)["blocked"], "as its owner sees it")
	ended := a.do(call{method: "DELETE", path: "/api/admin/blocks/phish?reason=appeal", key: operatorKey})
	require.Equal(t, 200, ended.StatusCode)
	require.Equal(t, false, object(t, ended.text)["blocked"])
	require.NotContains(t, a.get("/api/v1/urls/phish").text, `"blocked"`)

	set = a.do(call{method: "PUT", path: "/api/admin/blocks/phish", key: operatorKey, body: `{"reason": "malware", "all_addresses": true}`})
	require.Equal(t, []any{"own.example/café"}, object(t, set.text)["others"])
	ended = a.do(call{method: "DELETE", path: "/api/admin/blocks/phish?reason=appeal&all_addresses=true", key: operatorKey})
	require.Equal(t, []any{"own.example/café"}, object(t, ended.text)["others"])
}

func TestRedirect_OfABlockedCodeNamesTheContact(t *testing.T) {
	for policy, want := range map[waypost.BlockPolicy]struct {
		status int
		code   string
	}{waypost.BlockLegal: {451, "blocked"}, waypost.BlockGone: {410, "gone"}} {
		a := start(t, func(f *links, c *httpapi.Config) {
			c.Contact = "abuse@example.com"
			f.onResolve = func(context.Context, string) (waypost.Resolution, error) { return waypost.Blocked(policy), nil }
		})
		res := a.get("/phish")
		requireProblem(t, res, want.status, want.code)
		require.Contains(t, res.text, "questions: abuse@example.com")
	}
}
