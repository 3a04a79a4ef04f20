package system_test

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/api"
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

// patternVisits are the same for a domain with patterns.
var patternVisits = map[string]any{
	"/docs": "/d/", "/docs/": "/d/", "/docs/a/b?q=1": "/d/a/b", "/docs//a": "/d//a", "/docs/a%2Fb+": "/d/a%2Fb+", "/d%6fcs/a": "/d/a",
	"/docs/intro": "/intro", "/docs/intro/": "/intro", "/docs/intro).": "/intro", "/docs/intro/x": "/d/intro/x",
	"/docs/../x": 400, "/docs/%2e%2E/x": 400, "/docs/a/..%2fx": 400, "/docs/%0d%0aa": 400, "/docs/%5Cevil.example": "/d/%5Cevil.example",
	"/docs///evil.example": "/d///evil.example", "/docs/https://evil.example": "/d/https://evil.example",
	"/jira/A-1": "/browse/A-1", "/jira/": "/all/jira/?from=", "/jira/A-1/x": "/x?y=jira&m=A-1", "/jira/%E2%82%AC": "/browse/%E2%82%AC",
	"/jira/€":   "/browse/%E2%82%AC",
	"/JIRA/A-1": "/all/JIRA/A-1?from=", "/j%69ra/a;b=c": "/browse/a;b=c", "/jira/a&b=c": "/browse/a&b=c",
	"/2024/05/a%2Fb": "/a%2Fb?y=2024&m=05", "/2024/a&y=1/b": "/b?y=2024&m=a%26y%3D1", "/2024/05/": "/all/2024/05/?from=",
	"/2024/05/a/": "/all/2024/05/a/?from=", "/2024//a": "/all/2024//a?from=", "/2024/./a": 400,
	"/caf%c3%a9/x": "/cafe/x", "/cafe%CC%81/x": "/cafe/x", "/café/x": "/cafe/x",
	"/fwd": "/f", "/fwd/x": "/f/x", "/fwd/x/y": "/f/x/y", "/fwd/a/b": "/fab/b", "/fwd/a/b/c": "/f/a/b/c", "/fwd/a": "/f/a",
	"/other": "/all/other?from=", "/a/b?utm_source=x&utm_source=y": "/all/a/b?from=x", "/x?utm_source=a%26b=c+d": "/all/x?from=a%26b%3Dc+d",
	"/x?utm%5Fsource=1": "/all/x?from=1", "//evil.example": "/all//evil.example?from=", "/gone/x": "/all/gone/x?from=", "/paused/x": 410,
	"/robots.txt": 200, "/favicon.ico": 200, "/health": 200,
	"/" + strings.Repeat("/", 4000): "/all/" + strings.Repeat("/", 3999+1) + "?from=",
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
	run("domains", "add", patternsHost)
	for code, target := range map[string]string{
		"docs/*": "/d/{path}", "docs/intro": "/intro", "jira/{ticket}": "/browse/{ticket}", "{y}/{m}/{slug}": "/{slug}?y={y}&m={m}",
		"cafe\u0301/{dish}": "/cafe/{dish}", "fwd": "/f", "fwd/a/{x}": "/fab/{x}", "gone/*": "/gone", "paused/{x}": "/paused",
		"*": "/all/{path}?from={query.utm_source}",
	} {
		links = append(links, client.NewLink{
			OriginalURL: "https://example.com" + target, CustomCode: code, Domain: patternsHost, ForwardPath: code == "fwd",
		})
	}
	outcomes, err := api.Links.CreateBulk(t.Context(), links)
	require.NoError(t, err)
	for _, o := range outcomes {
		require.Nil(t, o.Error)
	}
	run("links", "delete", "a/gone", "--domain", host, "--yes")
	run("links", "delete", "gone/*", "--domain", patternsHost, "--yes")
	run("links", "update", "paused/{x}", "--domain", patternsHost, "--disable")

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
		eventually(t, time.Minute, "the deletion arrives", func() bool { return answerAt(t, u.Host, host, "/a/gone") == any(410) })
		eventually(t, time.Minute, "the pause arrives", func() bool { return answerAt(t, u.Host, patternsHost, "/paused/x") == any(410) })
	}
	for i, server := range servers {
		for path, want := range patternVisits {
			if own := want == any(200); !own || i > 0 { // the control plane has no such files
				require.Equal(t, want, answerAt(t, server, patternsHost, path), "%s%.60s", server, path)
			}
		}
	}
	for path, want := range patternVisits {
		if want != any(200) {
			require.Equal(t, want, explained(t, api, patternsHost, path, ""), "explain %.60s", path)
		}
	}
	require.Contains(t, run("links", "explain", patternsHost+"/2024/05/a%2Fb"), "{slug}       a%2Fb\n")
	require.Equal(t, "/browse/A-1", explained(t, api, patternsHost, "/jira/A-1", s.State().Edges[0].Node))
	for path, want := range visits {
		for _, server := range servers {
			require.Equal(t, want, answerAt(t, server, host, path), "%s%.60s", server, path)
		}
		require.Equal(t, want, explained(t, api, host, path, ""), "explain %.60s", path)
	}
	for _, path := range []string{"/spring.)", "/sale.)", "/a/c.", "/cafe%CC%81.", "/a/b/d/e"} {
		require.Equal(t, visits[path], explained(t, api, host, path, s.State().Edges[0].Node), path)
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
		eventually(t, time.Minute, "the block holds", func() bool { return answerAt(t, server, host, "/cafe%CC%81") == any(410) })
		require.Equal(t, any(410), answerAt(t, server, host, "/caf%c3%a9"))
		require.Equal(t, any(410), answerAt(t, server, host, "/cafe%CC%81)."))
	}
	run("links", "block", "jira/{ticket}", "--domain", patternsHost, "--reason", "test")
	run("links", "block", "docs/secret", "--domain", patternsHost, "--reason", "test")
	for _, server := range servers {
		for _, path := range []string{"/jira/A-1", "/docs/secret", "/docs/secret/x"} {
			eventually(t, time.Minute, "the block holds", func() bool { return answerAt(t, server, patternsHost, path) == any(410) })
		}
		require.Equal(t, any("/d/a"), answerAt(t, server, patternsHost, "/docs/a"))
	}
	moveSite(t, env, servers)
	requireAliases(t, env, api, servers)
	eventually(t, time.Minute, "clicks of a pattern are counted", func() bool {
		l, err := api.Links.Find(t.Context(), patternsHost, "cafe\u0301/{dish}")
		return err == nil && l.ClickCount == int64(3*(len(servers)-1))
	})
	eventually(t, time.Minute, "clicks are counted", func() bool {
		l, err := api.Links.Find(t.Context(), host, "summer/2026")
		return err == nil && l.ClickCount == int64(4*(len(servers)-1))
	})
}

// moveSite imports the redirects of a site, asks each server for them, and exports them
// to a file from which another domain gets the same.
func moveSite(t *testing.T, env, servers []string) {
	t.Helper()
	run := func(code int, args ...string) string {
		t.Helper()
		r := devtest.Run(t, env, args...)
		require.Equal(t, code, r.Code, r.Stderr)
		return r.Stdout
	}
	dir := t.TempDir()
	file, back, report := dir+"/_redirects", dir+"/back", dir+"/refused"
	require.NoError(t, os.WriteFile(file, []byte(`# of the old site
/blog/2020/*         /news/2020/:splat        302
/blog/:year/:slug    /news/:slug?y=:year
/team                /about#team              308!
/caf%C3%A9/          https://example.com/menu
/de/*                /en/:splat               302  Language=en
`), 0o600))
	want := map[string]any{
		"/blog/2020/05/a": "/news/2020/05/a", "/blog/2021/b?q=1": "/news/b?y=2021&q=1", "/team": "/about#team", "/cafe%CC%81": "/menu",
		"/blog/2020": "/news/2020/", "/blog/2021/": 404, "/de/x": 404,
	}
	for _, step := range []struct {
		host, file string
		code       int
		says       string
	}{{"old.example", file, 1, "4 of 5 rows created, 1 refused"}, {"older.example", back, 0, "4 of 4 rows created, 0 refused"}} {
		run(0, "domains", "add", step.host)
		flags := []string{"--format", "netlify", "--domain", step.host, "--site", "https://example.com", "--report", report}
		require.Contains(t, run(step.code, append([]string{"import", step.file}, flags...)...), step.says)
		for _, server := range servers {
			for path, to := range want {
				eventually(t, time.Minute, "a redirect of the file arrives", func() bool { return answerAt(t, server, step.host, path) == to })
			}
		}
		if step.code == 1 {
			refused, err := os.ReadFile(report)
			require.NoError(t, err)
			require.Regexp(t, "^# it has a condition .*\n/de/\\*  .*\n$", string(refused))
			require.Contains(t, run(0, "links", "export", back, "--domain", step.host, "--format", "netlify"), "4 links written")
		}
	}
}

// requireAliases adds addresses under two domains to links, asks each server for them,
// and removes one.
func requireAliases(t *testing.T, env []string, c *client.Client, servers []string) {
	t.Helper()
	const box, mail = "box.example", "mail.example"
	ctx, all := t.Context(), client.Write{Domain: box, Wait: "all", Timeout: 10 * time.Second}
	run := func(args ...string) {
		t.Helper()
		r := devtest.Run(t, env, args...)
		require.Zero(t, r.Code, r.Stderr)
	}
	create := func(n client.NewLink) error {
		n.Domain = box
		_, err := c.Links.Create(ctx, n)
		return err
	}
	alias := func(of, host, code string) error {
		_, _, err := c.Links.AddAlias(ctx, of, client.NewAlias{ShortCode: code, Domain: host}, all)
		return err
	}
	redirects := map[string]int64{} // of edges, by address
	answer := func(server, address string) any {
		host, path, _ := strings.Cut(address, "/")
		got := answerAt(t, server, host, "/"+url.PathEscape(path))
		if _, is := got.(string); is && server != servers[0] {
			redirects[address]++
		}
		return got
	}
	everywhere := func(want any, addresses ...string) {
		t.Helper()
		for _, server := range servers {
			for _, address := range addresses {
				eventually(t, time.Minute, address+" answers as it should", func() bool { return answer(server, address) == want })
			}
		}
	}
	run("domains", "add", box)
	run("domains", "add", mail)
	run("links", "create", "https://example.com/offer", "--code", "offer", "--domain", box, "--alias", "lid")
	require.NoError(t, alias("lid", mail, "été"), "an alias names the link")
	const own, near, far = box + "/offer", box + "/lid", mail + "/été"
	everywhere("/offer", own, near, far)
	run("links", "update", "lid", "--domain", box, "--target", "https://example.com/sale")
	everywhere("/sale", own, near, far)

	// A click budget is of all addresses and edges together.
	require.NoError(t, create(client.NewLink{OriginalURL: "https://example.com/few", CustomCode: "few", MaxClicks: 4, MaxClicksMode: "exact"}))
	require.NoError(t, alias("few", mail, "few"))
	eventually(t, time.Minute, "the budget is used up", func() bool {
		ended := true
		for _, server := range servers[1:] {
			for _, address := range []string{box + "/few", mail + "/few"} {
				ended = answer(server, address) == any(410) && ended
			}
		}
		return ended && redirects[box+"/few"]+redirects[mail+"/few"] >= 4
	})
	require.Equal(t, int64(4), redirects[box+"/few"]+redirects[mail+"/few"])

	// A block is of one address, or of all.
	run("links", "block", near, "--reason", "test")
	everywhere(410, near)
	everywhere("/sale", own, far)
	require.ErrorContains(t, alias("offer", box, "late"), "an operator blocks an address")
	run("links", "unblock", near, "--reason", "test")
	run("links", "block", far, "--all-addresses", "--reason", "test")
	everywhere(410, own, near, far)
	run("links", "unblock", own, "--all-addresses", "--reason", "test")
	everywhere("/sale", own, near, far)

	_, _, err := c.Links.RemoveAlias(ctx, "offer", box, "lid", all)
	require.NoError(t, err)
	everywhere(404, near)
	everywhere("/sale", own, far)
	for _, err := range []error{
		alias("offer", box, "lid"), alias("few", box, "lid"), create(client.NewLink{OriginalURL: "https://example.com/", CustomCode: "lid"}),
	} {
		problem := (*client.Problem)(nil)
		require.ErrorAs(t, err, &problem)
		require.Equal(t, 409, problem.Status)
	}
	_, err = c.Links.Remove(ctx, "offer", all)
	require.NoError(t, err)
	everywhere(410, own, far)
	_, _, err = c.Links.Restore(ctx, "offer", all)
	require.NoError(t, err)
	everywhere("/sale", own, far)

	for code, addresses := range map[string][]string{"offer": {own, near, far}, "few": {box + "/few", mail + "/few"}} {
		want, got := map[string]int64{}, map[string]int64{}
		for _, address := range addresses {
			if n := redirects[address]; n > 0 {
				want[address] = n
			}
		}
		eventually(t, time.Minute, "clicks are counted by address", func() bool {
			stats, err := client.Get[client.Stats](ctx, c, client.Path(api.PathLinks, code, "stats")+client.Query(map[string]string{"domain": box}))
			require.NoError(t, err)
			clear(got)
			for _, n := range stats.Codes {
				got[n.Name] = n.Clicks
			}
			return maps.Equal(want, got)
		})
	}
	eventually(t, time.Minute, "all replicas are sound", func() bool { return devtest.Run(t, env, "verify", "--all").Code == 0 })
}

// explained returns what answerAt returns, as an explanation says it.
func explained(t *testing.T, server *client.Client, host, path, edge string) any {
	t.Helper()
	asked := client.Query(map[string]string{"domain": host, "url": path, "edge": edge})
	e, err := client.Get[api.Explanation](t.Context(), server, api.PathExplain+asked)
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

// Domains of the codes, and of the patterns.
const (
	codesHost    = "codes.example"
	patternsHost = "patterns.example"
)

const browserAgent = "Mozilla/5.0 (X11; Linux x86_64; rv:125.0) Gecko/20100101 Firefox/125.0"

// answerAt returns the path of the Location of a redirect, or the status of another
// answer, to a request of a host with just this path.
func answerAt(t *testing.T, server, host, path string) any {
	t.Helper()
	conn, err := net.Dial("tcp", server)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: "+browserAgent+"\r\n\r\n")
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	if err := res.Body.Close(); res.Header.Get("Location") == "" {
		require.NoError(t, err)
		return res.StatusCode
	}
	return strings.TrimPrefix(res.Header.Get("Location"), "https://example.com")
}
