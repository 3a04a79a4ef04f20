package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

const hostile = `https://a.example/"><script>alert(1)</script>?a='&b={host}{notes}&amp;c#` + "`$&"

func TestPreviewBody_EscapesTheTarget(t *testing.T) {
	r := waypost.Resolution{Status: 301, Location: []byte(hostile), ExpiresAt: 1_800_000_000_000, Flags: waypost.ForwardPath}
	contentType, body := previewBody([]byte("spring"), &r, true)
	require.Equal(t, "text/html; charset=utf-8", contentType)
	text := string(body)
	const escaped = `https://a.example/&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;?a=&#39;&amp;b={host}{notes}&amp;amp;c#` + "`$&amp;"
	require.Contains(t, text, `<a href="`+escaped+`" rel="noreferrer nofollow">`+escaped+`</a>`)
	require.Contains(t, text, "<h1>a.example</h1>")
	require.Contains(t, text, "<title>spring leads to a.example</title>")
	require.Contains(t, text, "Until 2027-01-15 08:00 UTC.")
	require.Contains(t, text, "is added to this one")
	require.NotContains(t, text, "<script")
	require.Equal(t, 2, strings.Count(text, "https:"), "the page loads nothing")

	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)[1]
	sum := sha256.Sum256([]byte(style))
	require.Contains(t, pagePolicy, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"';")
}

func TestPreviewBody_LinksToWebAddressesOnly(t *testing.T) {
	for _, location := range []string{"javascript:alert(1)", "data:text/html,x", "//a.example", "", " https://a.example"} {
		_, body := previewBody([]byte("spring"), &waypost.Resolution{Status: 302, Location: []byte(location)}, true)
		require.NotContains(t, string(body), "href", location)
	}
}

func TestPreviewBody_IsAnObjectForPrograms(t *testing.T) {
	for _, expires := range []int64{0, 1_800_000_000_500} {
		r := waypost.Resolution{Status: 307, Location: []byte(hostile), ExpiresAt: expires, Flags: waypost.ForwardQuery}
		contentType, body := previewBody([]byte("spring"), &r, false)
		require.Equal(t, "application/json", contentType)
		var got map[string]any
		require.NoError(t, json.Unmarshal(body, &got))
		want := map[string]any{
			"short_code": "spring", "location": hostile, "redirect_status": 307.0, "expires_at": nil,
			"forward_query": true, "forward_path": false,
		}
		if expires != 0 {
			want["expires_at"] = "2027-01-15T08:00:00.5Z"
		}
		require.Equal(t, want, got)
	}
}

func TestAsset_IsKnownByItsTag(t *testing.T) {
	robots, icon := assetAt([]byte("robots.txt")), assetAt([]byte("favicon.ico"))
	require.Equal(t, "User-agent: *\nDisallow:\n", string(robots.body))
	require.Equal(t, "\x89PNG", string(icon.body[:4]))
	require.Less(t, len(icon.body), 512)
	tag := string(robots.etag)
	require.NotEqual(t, tag, string(icon.etag))
	require.Nil(t, assetAt([]byte("robots")))
	for header, known := range map[string]bool{
		tag: true, "W/" + tag: true, "*": true, ` "x" ,` + tag: true,
		"": false, string(icon.etag): false, strings.Trim(tag, `"`): false, tag + "x": false, `"x", "y"`: false, ",,": false,
	} {
		require.Equal(t, known, robots.isIn([]byte(header)), header)
	}
	require.True(t, waypost.OwnPath("robots.txt"), "no code can hide it")
	require.True(t, waypost.OwnPath("favicon.ico"))
}
