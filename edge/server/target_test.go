package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

func TestATargetAboveTheLimitAnswers414(t *testing.T) { overBothFamilies(t, longTargets) }

func longTargets(t *testing.T, listen string) {
	_, addr := serveOn(t, listen, server.Config{})
	for target, status := range map[string]int{
		"/" + strings.Repeat("a", 8191):                                  404, // the longest that is looked at
		"/" + strings.Repeat("a", 8192):                                  414,
		"/found302?" + strings.Repeat("q", 8182):                         302,
		"/found302?" + strings.Repeat("q", 8183):                         414,
		"http://wayp.example/" + strings.Repeat("a", 8192-20):            404,
		"http://wayp.example/" + strings.Repeat("a", 8193-20):            414,
		"/" + strings.Repeat("%61", 2730):                                404, // as it was sent, not decoded
		"/" + strings.Repeat("%61", 2731):                                414,
		"http://" + strings.Repeat("a.", 4100) + "wayp.example/found302": 414,
	} {
		res := get(t, addr, target, "wayp.example")
		require.Equal(t, status, res.StatusCode, "%d bytes from %.30s", len(target), target)
		require.Equal(t, status == 414, res.Close)
	}
}

func TestATargetInAbsoluteFormNamesTheDomain(t *testing.T) {
	const byDefault, byHost = "https://example.org/default", "https://example.org/hosted"
	_, addr := serve(t, server.Config{StrictHosts: true})
	for target, want := range map[string]struct {
		status   int
		location string
	}{
		"http://" + hosted + "/whereami":             {302, byHost},
		"HTTP://GO.Example.COM./whereami":            {302, byHost},
		"https://" + hosted + ":8443/whereami?q=1":   {302, byHost},
		"http://wayp.example/whereami":               {302, byDefault},
		"http://unknown.example/whereami":            {404, ""},
		"http://[::1]:80/whereami":                   {404, ""},
		"http://" + hosted + "//whereami":            {404, ""},
		"http://" + hosted + "/a/../whereami":        {404, ""},
		"http://" + hosted:                           {200, ""},
		"http://" + hosted + "?q":                    {200, ""},
		"http://" + hosted + "#whereami":             {404, ""},
		"http:///whereami":                           {400, ""},
		"http://":                                    {400, ""},
		"http:/" + hosted + "/whereami":              {400, ""},
		"http:" + hosted + "/whereami":               {400, ""},
		"http://user@" + hosted + "/whereami":        {400, ""},
		"http://user:pass@" + hosted + "/whereami":   {400, ""},
		"http://" + hosted + "@evil.example/x":       {400, ""},
		"http://" + hosted + ":x/whereami":           {400, ""},
		"http://" + hosted + "%2ewayp.example/x":     {400, ""},
		"http://" + hosted + "\\whereami":            {400, ""},
		"ftp://" + hosted + "/whereami":              {400, ""},
		"javascript://" + hosted + "/%0aalert(1)":    {400, ""},
		"//" + hosted + "/whereami":                  {404, ""}, // a path, not an authority
		"\\\\" + hosted + "/whereami":                {400, ""},
		hosted + ":80":                               {400, ""}, // as only CONNECT has it
		"*":                                          {400, ""},
		"?whereami":                                  {400, ""},
		"http://" + strings.Repeat("a.", 128) + "/x": {400, ""}, // a host of 256 bytes
	} {
		t.Run(target[:min(len(target), 60)], func(t *testing.T) {
			res := get(t, addr, target, "wayp.example")
			require.Equal(t, want.status, res.StatusCode)
			require.Equal(t, want.location, res.Header.Get("Location"))
			require.Equal(t, want.status == 400, res.Close)
		})
	}
}

// TestVisit_DecodesLettersAlone: a proxy in front may decode a path. Characters without a
// meaning in a URL are the same encoded (RFC 3986, 6.2.2.2), and no code has the others.
func TestVisit_DecodesLettersAlone(t *testing.T) {
	links := newMemoryLinks()
	_, addr := serve(t, server.Config{Links: links})
	for _, path := range []string{
		"/%2566ound302", "/%2ffound302", "/found302%2f", "/%2e/found302", "/%2e%2e/found302", "/.%2e/found302",
		"/%252e%252e/found302", "/found302%3fq", "/found302%23", "/found302%00", "/found302%0d%0aX-A:%20b",
		"/%c0%af../found302", "/%5cfound302", "/found302;jsessionid=1", "/found302%ff",
	} {
		res := get(t, addr, path, "wayp.example")
		require.Equal(t, 404, res.StatusCode, path)
		require.NotContains(t, res.Header, "Location", path)
		require.NotContains(t, res.Header, "X-A", path)
	}
	require.Zero(t, links.lookups.Load())
	for _, path := range []string{"/%66ound302", "/found30%32", "/caf%C3%A9", "/caf%c3%a9", "/cafe%CC%81", "/s%75mmer/2026"} {
		require.Equal(t, 302, get(t, addr, path, "wayp.example").StatusCode, path)
	}
	// The control plane says the same (TestRedirect_RefusesBrokenEscapes).
	for _, path := range []string{
		"/found302%", "/found302%zz", "/%%30%30", "/found302/x%", "/found302/x%4", "/forward1/%u002e%u002e/", "/%+",
	} {
		require.Equal(t, 400, get(t, addr, path, "wayp.example").StatusCode, path)
	}
	require.Equal(t, 302, get(t, addr, "/found302?%zz%", "wayp.example").StatusCode, "a query is not read")
}
