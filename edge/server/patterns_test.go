package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

func TestServer_APatternLeadsFromManyAddresses(t *testing.T) {
	clicks := &takenClicks{}
	_, addr := serve(t, server.Config{Links: newMemoryLinks(), Clicks: clicks})
	for path, want := range map[string]string{
		"/docs": "https://example.org/d/?q=#top", "/docs/a/b?q=1": "https://example.org/d/a/b?q=1&q=1#top",
		"/docs/a%2Fb+": "https://example.org/d/a%2Fb+?q=#top", "/docs///evil.example": "https://example.org/d///evil.example?q=#top",
		"/docs/x/edit/y?q=1": "https://example.org/edit/x",
	} {
		res := get(t, addr, path, "wayp.example")
		require.Equal(t, 302, res.StatusCode, path)
		require.Equal(t, want, res.Header.Get("Location"), path)
		for _, click := range clicks.take() {
			require.Contains(t, []string{"docs/*", "docs/{page}/edit/{x}"}, string(click.Code))
			require.True(t, waypost.ValidCode(click.Code))
		}
	}
	require.Equal(t, 400, get(t, addr, "/docs/%2e%2e/x", "wayp.example").StatusCode)
	require.Equal(t, 404, get(t, addr, "/other", "wayp.example").StatusCode)
	preview := get(t, addr, "/docs/x/edit/y+?q=1", "wayp.example")
	require.Equal(t, 200, preview.StatusCode)

	// The cookie of a variant is for all addresses of the pattern.
	cookie := get(t, addr, "/kept/x", "wayp.example").Header.Get("Set-Cookie")
	require.Contains(t, cookie, "; Path=/kept;")
	require.Empty(t, get(t, addr, "/docs/x", "wayp.example").Header.Get("Set-Cookie"))
}
