package system_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/test/devtest"
)

// visits are paths under a domain with the links of TestCodes_ArePrintedAddresses, and
// what is right: the path of the Location, or a status.
var visits = map[string]any{
	"/x": "/x", "/spring": "/spring", "/SPRING": 404, "/login": "/login", "/admin?q": "/admin", "/v1.2~b": "/dots",
	"/%73pring": "/spring", "/s%70rin%67": "/spring", "/%2573pring": 404, "/spring%20": 404, "/spring%00": 404,
	"/spring%2F": 404, "/spring%3F": 404,
	"/spring%23": 404, "/spring%2B": 404, "/spring%5C": 404, "/spr%69ng/x": 404, "/v1%2E2%7Eb": "/dots",
	"/under_score-x": "/marks", "/under%5Fscore%2Dx": "/marks",
	"/summer/2026": "/summer", "/summer%2F2026": 404, "/s%75mmer/2%3026": "/summer", "/summer": 404, "/summer/2026/x": 404,
	"/Summer/2026":  404,
	"/summer//2026": 404, "/summer/./2026": 404, "/x/../spring": 404, "//spring": 404, "//evil.example/spring": 404,
	"/%5Cevil.example": 404,
	"/caf%C3%A9":       "/cafe", "/caf%c3%a9": "/cafe", "/cafe%CC%81": "/cafe", "/caf\u00e9": "/cafe", "/cafe\u0301": "/cafe",
	"/cafe": 404, "/CAF%C3%89": 404,
	"/c%61f%C3%A9": "/cafe", "/caf%C3": 404, "/caf%C3%A9%CC": 404, "/caf%E9": 404, "/caf%25C3%25A9": 404,
	"/%E2%80%AEspring": 404, "/spring%E2%80%8B": 404,
	"/%F0%9F%A6%A3": "/mammoth", "/%f0%9f%a6%a3": "/mammoth", "/🦣": "/mammoth", "/%F0%9F%A6": 404, "/%C0%AF": 404,
	"/%ED%A0%80":          404,
	"/%E2%9D%A4%EF%B8%8F": "/heart", "/%E2%9D%A4": 404, "/%E6%97%A5%E6%9C%AC/%E6%98%A5": "/japan", "/日本/春": "/japan", "/日本": 404,
	"/%E1%84%92%E1%85%A1%E1%86%AB": "/han", "/%ED%95%9C": "/han", "/한": "/han",
	"/a": "/a", "/a/b": "/ab", "/a/c": "/a/c", "/a/": "/a/", "/a/b/": "/ab", "/a/b/c?q=1": "/a/b/c", "/a//b": "/a//b",
	"/%61/%62": "/ab", "/%61/%2Fb": "/a/%2Fb",
	"/a/../b": 400, "/a/%2e%2e": 400, "/a/b%2Fc": "/a/b%2Fc", "/a/caf%C3%A9": "/a/caf%C3%A9",
	"/a//evil.example": "/a//evil.example", "/a/gone/x": "/a/gone/x",
	"/a/gone": 410, "/a/b/d": "/abd", "/a/b/d/e": "/abd/e", "/" + strings.Repeat("x", 128): "/long",
	"/" + strings.Repeat("x", 129): 404,
	"/spring.":                     "/spring", "/spring)": "/spring", "/spring%29": "/spring", "/spring/": "/spring", "/spring.)": "/spring",
	"/spring%2E": "/spring", "/spring,": "/spring", "/spring%3b": "/spring", "/spring:": "/spring", "/spring!?q": "/spring",
	"/spring%5D": "/spring", "/spring'": "/spring", "/spring%22.": "/spring", "/spring%3E": "/spring", "/spring/.": "/spring",
	"/s%70ring...": "/spring", "/spring))))))))": "/spring", "/spring)))))))))": 404, "/spring*": 404, "/spring%2529": 404,
	"/spring.x": 404, "/SPRING.": 404, "/...": 404, "/)": 404,
	"/sale": "/sale", "/sale.": "/sale-dot", "/sale%2e": "/sale-dot", "/sale.)": "/sale-dot", "/sale).": "/sale", "/sale/": "/sale",
	"/summer/2026/": "/summer", "/summer/2026).": "/summer", "/cafe%CC%81.": "/cafe", "/%F0%9F%A6%A3!": "/mammoth",
	"/a.": "/a", "/a).": "/a", "/a/.": 400, "/a/b.": "/ab", "/a/b/)": "/ab", "/a/c.": "/a/c.", "/a/gone.": 410, "/a/b/d/": "/abd/",
	"/" + strings.Repeat("x", 128) + ")": "/long", "/spring" + strings.Repeat("%29", 2000): 404,
	"/" + strings.Repeat("/", 4000): 404, "/" + strings.Repeat("a/", 2000): "/" + strings.Repeat("a/", 2000),
}

func TestCodes_ArePrintedAddresses(t *testing.T) {
	t.Parallel()
	s := twoEdges.For(t)
	env := []string{"WAYPOST_DATA_DIR=" + s.DataDir()}
	run := func(args ...string) string {
		t.Helper()
		r := devtest.Run(t, env, args...)
		require.Zero(t, r.Code, r.Stderr)
		return r.Stdout
	}
	const host = codesHost
	run("domains", "add", host)
	api, err := client.New(s.State().API, s.State().APIKey)
	require.NoError(t, err)
	defer api.Close()
	var links []client.NewLink
	for code, target := range map[string]string{
		"x": "/x", "spring": "/spring", "login": "/login", "admin": "/admin", "v1.2~b": "/dots", "under_score-x": "/marks",
		"summer/2026": "/summer", "sale": "/sale", "sale.": "/sale-dot",
		"cafe\u0301": "/cafe", "🦣": "/mammoth", "❤\ufe0f": "/heart", "日本/春": "/japan",
		"한": "/han", strings.Repeat("x", 128): "/long",
		"a": "/a", "a/b": "/ab", "a/b/d": "/abd", "a/gone": "/gone",
	} {
		n := client.NewLink{OriginalURL: "https://example.com" + target, CustomCode: code, Domain: host}
		if code == "a" || code == "a/b/d" {
			n.ForwardPath = true
		}
		links = append(links, n)
	}
	outcomes, err := api.Links.CreateBulk(t.Context(), links)
	require.NoError(t, err)
	for _, o := range outcomes {
		require.Nil(t, o.Error)
	}
	run("links", "delete", "a/gone", "--domain", host, "--yes")

	// Commands and the API find a link by any spelling, and show its code and its URL.
	require.Contains(t, run("links", "get", host+"/cafe\u0301"), "/caf%C3%A9")
	require.Contains(t, run("links", "get", "http://"+host+"/caf%C3%A9"), "/caf%C3%A9")
	require.Contains(t, run("links", "get", "summer/2026", "--domain", host), "/summer/2026")
	require.Contains(t, run("links", "explain", "summer/2026", "--domain", host), "https://example.com/summer")
	require.Contains(t, run("links", "explain", "cafe\u0301", "--domain", host), "https://example.com/cafe")
	require.Contains(t, run("links", "list", "--domain", host), "日本/春")

	base, err := url.Parse(s.State().API)
	require.NoError(t, err)
	servers := []string{base.Host}
	for _, e := range s.State().Edges {
		u, err := url.Parse(e.URL)
		require.NoError(t, err)
		servers = append(servers, u.Host)
		eventually(t, time.Minute, "the deletion arrives", func() bool { return answerAt(t, u.Host, "/a/gone") == any(410) })
	}
	for path, want := range visits {
		for _, server := range servers {
			require.Equal(t, want, answerAt(t, server, path), "%s%.60s", server, path)
		}
		require.Equal(t, want, explained(t, api, path, ""), "explain %.60s", path)
	}
	for _, path := range []string{"/spring.)", "/sale.)", "/a/c.", "/cafe%CC%81.", "/a/b/d/e"} {
		require.Equal(t, visits[path], explained(t, api, path, s.State().Edges[0].Node), path)
	}
	for _, refused := range []string{
		"//x", "a//b", "a/../b", ".", "..", "b/", strings.Repeat("x", 129), "Robots.txt",
		"plus+", "\u202ex",
	} {
		r := devtest.Run(t, env, "links", "create", "https://example.com/", "--domain", host, "--code", refused)
		require.NotZero(t, r.Code, refused)
	}
	r := devtest.Run(t, env, "links", "create", "https://example.com/", "--domain", host, "--code", "café")
	require.Contains(t, r.Stderr, "taken")
	r = devtest.Run(t, env, "links", "create", "https://example.com/", "--code", "ab")
	require.Contains(t, r.Stderr, "4 to 32 characters")

	// A takedown and the clicks are about the code of the link, however a visitor asks.
	run("links", "block", "cafe\u0301", "--domain", host, "--reason", "test")
	for _, server := range servers {
		eventually(t, time.Minute, "the block holds", func() bool { return answerAt(t, server, "/cafe%CC%81") == any(410) })
		require.Equal(t, any(410), answerAt(t, server, "/caf%c3%a9"))
		require.Equal(t, any(410), answerAt(t, server, "/cafe%CC%81)."))
	}
	eventually(t, time.Minute, "clicks are counted", func() bool {
		l, err := api.Links.Find(t.Context(), host, "summer/2026")
		return err == nil && l.ClickCount == int64(4*(len(servers)-1))
	})
}

// explained returns what answerAt returns, as an explanation says it.
func explained(t *testing.T, api *client.Client, path, edge string) any {
	t.Helper()
	e, err := api.Links.Explain(t.Context(), codesHost, path, client.Visitor{Edge: edge})
	switch problem := (*client.Problem)(nil); {
	case errors.As(err, &problem) && problem.Status == 404 && path != "/a/gone" && path != "/a/gone.":
		return 404
	case errors.As(err, &problem) && problem.Status == 404: // a deleted link is not explained
		return 410
	}
	require.NoError(t, err)
	require.True(t, e.Edge == nil || e.Edge.Found)
	if e.Result.Location == "" {
		return e.Result.Status
	}
	return strings.TrimPrefix(e.Result.Location, "https://example.com")
}

// codesHost is the domain of the codes.
const codesHost = "codes.example"

// answerAt returns the path of the Location of a redirect, or the status of another
// answer, to a request of codesHost with just this path.
func answerAt(t *testing.T, server, path string) any {
	t.Helper()
	conn, err := net.Dial("tcp", server)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+codesHost+"\r\n\r\n")
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	if err := res.Body.Close(); res.Header.Get("Location") == "" {
		require.NoError(t, err)
		return res.StatusCode
	}
	return strings.TrimPrefix(res.Header.Get("Location"), "https://example.com")
}
