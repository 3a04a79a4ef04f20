package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinksBlock_SaysWhichEdgesHaveNotConfirmed(t *testing.T) {
	const block = `{"short_code": "phish", "domain": "go.example.com", "blocked": true, "policy": "legal", "reason": "order", "at": "2026-11-25T10:00:00Z", "version": 7}`
	var asked []string
	lists := 0
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/admin/edges" {
			if lists++; lists == 1 { // before its report
				_, _ = io.WriteString(w, `{"edges": [{"node": "eu-1", "state": "alive", "has_blocks": false}]}`)
				return
			}
			_, _ = io.WriteString(w, `{"edges": [{"node": "eu-1", "state": "alive", "has_blocks": true},
				{"node": "eu-2", "state": "silent", "has_blocks": false}, {"node": "old", "state": "gone", "has_blocks": null}]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.RequestURI()+" "+strings.TrimSpace(string(body)))
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"blocks": [`+block+`], "next_cursor": "c"}`)
			return
		}
		if r.URL.Query().Has("all_addresses") || strings.Contains(string(body), "all_addresses") {
			_, _ = io.WriteString(w, strings.Replace(block, `"version"`, `"others": ["go.example.com/s", "own.example/été"], "version"`, 1))
			return
		}
		_, _ = io.WriteString(w, block)
	}
	code, stdout, stderr := ask(t, api, "links", "block", "https://go.example.com/phish", "--policy", "legal", "--reason", "order")
	require.Zero(t, code, stderr)
	require.Equal(t, "go.example.com/phish is blocked (legal): 1 edges have confirmed it, and these have not: eu-2\n", stdout)
	code, stdout, _ = ask(t, api, "links", "blocks")
	require.Zero(t, code)
	require.Regexp(t, `go\.example\.com/phish +\S+ \S+ +legal +order\s+more with --cursor c`, stdout)
	code, _, _ = ask(t, api, "links", "unblock", "phish", "--reason", "appeal", "--output", "json")
	require.Zero(t, code)
	_, stdout, _ = ask(t, api, "links", "block", "phish", "--all-addresses", "--reason", "malware")
	require.Contains(t, stdout, "each of go.example.com/phish, go.example.com/s, own.example/été is blocked (legal)")
	_, _, _ = ask(t, api, "links", "unblock", "phish", "--all-addresses", "--reason", "appeal")
	require.Equal(t, []string{
		`PUT /api/admin/blocks/phish?domain=go.example.com {"policy":"legal","reason":"order"}`, "GET /api/admin/blocks?limit=50 ",
		"DELETE /api/admin/blocks/phish?reason=appeal ",
		`PUT /api/admin/blocks/phish {"policy":"gone","reason":"malware","all_addresses":true}`,
		"DELETE /api/admin/blocks/phish?all_addresses=true&reason=appeal ",
	}, asked)

	code, _, stderr = ask(t, api, "links", "block", "phish")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--reason is needed")
}

func TestLinksBlock_NamesTheFileOfEdgesWhileTheDatabaseIsAway(t *testing.T) {
	api := func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusServiceUnavailable, "the database is away")
	}
	for argument, line := range map[string]string{"phish": "phish legal", "https://go.example.com/phish": "go.example.com/phish legal"} {
		code, _, stderr := ask(t, api, "links", "block", argument, "--policy", "legal", "--reason", "order")
		require.NotZero(t, code)
		require.Contains(t, stderr, `the line "`+line+`" in the file "blocked"`)
	}
}

func TestLinksBlock_SaysThatTheEdgesCouldNotBeAsked(t *testing.T) {
	api := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			refuse(w, http.StatusForbidden, "this needs the scope admin")
			return
		}
		_, _ = io.WriteString(w, `{"short_code": "phish", "domain": "go.example.com", "blocked": true, "policy": "gone"}`)
	}
	code, stdout, stderr := ask(t, api, "links", "block", "phish", "--reason", "order")
	require.Equal(t, 1, code)
	require.Equal(t, "go.example.com/phish is blocked (gone)\n", stdout)
	require.Contains(t, stderr, "which edges know it could not be asked")
	_, stdout, _ = ask(t, api, "links", "block", "phish", "--reason", "order", "--output", "json")
	require.Contains(t, stdout, `"unconfirmed": null`)
}
