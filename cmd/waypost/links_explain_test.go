package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

const anExplanation = `{"short_code":"spring","domain":"go.example.com","original_url":"https://example.com/","active":true,
	"facts":{"at":"2026-12-01T08:00:00Z","country":"FR","user_agent":"X","agent":["ios","mobile"],"languages":["fr"],"query":"a=b",
	"read":["agent","place","address"]},
	"rules":[{"id":1,"name":"here","outcome":"failed","failed":1,"condition":"country is one of DE, AT"},
	{"id":4,"name":"","outcome":"matched","failed":null,"condition":""},
	{"id":2,"name":"","outcome":"not_reached","failed":null,"condition":""}],
	"result":{"status":302,"location":"https://example.com/b","reason":"rule 4 matches","rule":4,"variant":2,
	"variants":[{"id":1,"name":"red","share":0.7,"to":"https://example.com/a"},{"id":2,"name":"","share":0.3,"to":"https://example.com/b"}]}}`

func TestLinksExplain_AsksForAVisitorAndShowsWhy(t *testing.T) {
	var asked string
	code, stdout, stderr := ask(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = w.Write([]byte(anExplanation))
	}, "links", "explain", "https://go.example.com/spring", "--country", "fr", "--agent", "iphone", "--language", "fr", "--query", "a=b",
		"--at", "2026-12-01T09:00:00+01:00", "--code", "s*", "--target", "https://example.com/")
	require.Zero(t, code, stderr)
	require.Equal(t, "/api/v1/explain?agent=iphone&at=2026-12-01T09%3A00%3A00%2B01%3A00&code=s%2A&country=FR&"+
		"domain=go.example.com&language=fr&query=a%3Db&target=https%3A%2F%2Fexample.com%2F&url=spring", asked)
	require.Contains(t, stdout, `
address      unknown
country      FR
city         unknown
user agent   X
agent        ios, mobile
languages    fr
query        a=b

RULE  NAME  OUTCOME      CONDITION THAT FAILED
1     here  failed       2: country is one of DE, AT
4           matched      `+`
2           not reached  `+`

answer       302 https://example.com/b
because      rule 4 matches
variant 1    70 % red to https://example.com/a
variant 2    30 % to https://example.com/b
`)
	code, _, stderr = ask(t, http.NotFound, "links", "explain", "spring", "--at", "tomorrow")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "--at")
}

func TestLinksExplain_AsksForAPathAsVisitorsDo(t *testing.T) {
	for argument, want := range map[string]string{
		"spring":                        "url=spring",
		"caf%C3%A9/x":                   "url=caf%25C3%25A9%2Fx",
		"go.example.com/sp%72ing).?a=b": "domain=go.example.com&url=sp%2572ing%29.%3Fa%3Db",
		"http://localhost:8081/spring/": "url=spring%2F",
	} {
		var asked string
		code, _, stderr := ask(t, func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.String()
			_, _ = w.Write([]byte(anExplanation))
		}, "links", "explain", argument)
		require.Zero(t, code, stderr)
		require.Equal(t, "/api/v1/explain?"+want, asked)
	}
}
