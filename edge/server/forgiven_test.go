package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
	"waypost/rules"
)

func TestServer_ForgivenPunctuationChangesNothingElse(t *testing.T) {
	links, clicks := newMemoryLinks(), &memoryClicks{}
	own := links.links[waypost.DefaultDomain]
	own["secret01"], own["exact001"] = protectedLink(t, 1, 8, 0), limitedLink(t, rules.ModeExact, ended)
	own["found302."] = waypost.Record{Kind: waypost.KindLink, Status: 302, Payload: []byte("https://example.org/dot")}
	links.links[hostID]["whereami"] = own["found302"]
	links.traits = map[waypost.DomainID]waypost.DomainTraits{hostID: waypost.ExactPaths}
	w := &wallet{ready: 2}
	blocks := blocking(map[string]waypost.BlockPolicy{"/found307": waypost.BlockLegal})
	_, addr := serve(t, server.Config{Links: links, Clicks: clicks, Blocks: blocks, Budgets: w})
	for _, lane := range []string{"X: by the fast path", "Sec-Purpose: none, by the handler"} {
		for _, c := range []struct {
			path, host string
			status     int
			location   string
		}{
			{"/found302).", "wayp.example", 302, target},
			{"/found302.)", "wayp.example", 302, "https://example.org/dot"},
			{"/found307%22.", "wayp.example", 451, ""},
			{"/secret01.", "wayp.example", 200, ""},  // asks for the password
			{"/found301)+", "wayp.example", 200, ""}, // shows the preview
			{"/found301+).", "wayp.example", 200, ""},
			{"/deleted1/", "wayp.example", 410, ""},
			{"/exact001!", "wayp.example", 302, target},
			{"/whereami", hosted, 302, target},
			{"/whereami.", hosted, 404, ""},
			{"/whereami/", hosted, 404, ""},
		} {
			res := get(t, addr, c.path, c.host, lane, firefoxAgent)
			require.Equal(t, c.status, res.StatusCode, "%s %s", c.path, lane)
			require.Equal(t, c.location, res.Header.Get("Location"), c.path)
		}
		counted := []string{}
		for _, click := range clicks.take() {
			counted = append(counted, click.code)
		}
		require.Equal(t, []string{"found302", "found302.", "exact001", "whereami"}, counted)
	}
	require.Zero(t, w.ready)
	right := postForm(t, addr, "/secret01).?a=b", secret)
	require.Equal(t, 303, right.StatusCode)
	require.Equal(t, "/secret01?a=b", right.Header.Get("Location"), "for which the cookie is")
	require.Equal(t, "/secret01", right.Cookies()[0].Path)
}
