package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/controlplane/httpapi"
)

func TestCORS_OnlyNamedOriginsMayCallTheAPI(t *testing.T) {
	a := start(t, func(_ *links, c *httpapi.Config) { c.Origins = []string{"https://shop.example.com"} })
	preflight := func(path, origin string) http.Header {
		res := a.do(call{method: http.MethodOptions, path: path, key: "none", header: map[string]string{
			"Origin": origin, "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "authorization,content-type",
		}})
		return res.Header
	}
	const allow = "Access-Control-Allow-Origin"
	h := preflight("/api/v1/urls/abc", "https://shop.example.com")
	require.Equal(t, "https://shop.example.com", h.Get(allow))
	require.Equal(t, "PATCH", h.Get("Access-Control-Allow-Methods"))
	require.Equal(t, "authorization,content-type", h.Get("Access-Control-Allow-Headers"))
	require.Empty(t, h.Get("Access-Control-Allow-Credentials"), "no page acts for somebody who has signed in")
	require.Empty(t, preflight("/api/v1/urls/abc", "https://shop.example.com.evil.example").Get(allow))
	require.Empty(t, preflight("/console", "https://shop.example.com").Get(allow))

	listed := a.do(call{path: "/api/v1/urls", header: map[string]string{"Origin": "https://shop.example.com"}})
	require.Equal(t, http.StatusOK, listed.StatusCode)
	require.Equal(t, "https://shop.example.com", listed.Header.Get(allow))
	require.Equal(t, "*", listed.Header.Get("Access-Control-Expose-Headers"))
	without := start(t)
	require.Empty(t, without.do(call{path: "/api/v1/urls", header: map[string]string{"Origin": "https://shop.example.com"}}).Header.Get(allow))
}
