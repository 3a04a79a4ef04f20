package fronts_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/internal/redirectfile"
)

// All fronts and their visitors share one system. The control plane is killed at the end.
func TestFronts_WorkAsConfiguredInDeploy(t *testing.T) {
	w := newWorld(t)
	fronts := map[string]*front{"nginx": w.nginx(t), "haproxy": w.haproxy(t), "caddy": w.caddy(t)}
	slow := make(map[string]net.Conn, len(fronts)) // so that they are waited for at once
	for name, f := range fronts {
		slow[name] = sendSlowly(t, f)
	}
	t.Run("each", func(t *testing.T) {
		for name, f := range fronts {
			t.Run(name+" names the visitor", func(t *testing.T) { t.Parallel(); w.namesTheVisitor(t, f) })
			t.Run(name+" refuses large requests", func(t *testing.T) { t.Parallel(); refusesLargeRequests(t, f) })
		}
		for _, name := range []string{"nginx", "haproxy"} {
			t.Run(name+" limits the rate of an address", func(t *testing.T) { t.Parallel(); limitsTheRate(t, fronts[name]) })
		}
	})
	t.Run("nginx takes an IPv6 /64 for one client", w.countsNetworks)
	for name := range fronts {
		t.Run(name+" lets pages of one origin ask", func(t *testing.T) { letsAPageAsk(t, fronts[name]) })
	}
	for name, c := range slow {
		t.Run(name+" refuses slow requests", func(t *testing.T) { isRefused(t, c) })
	}
	t.Run("nginx leads old addresses on", w.leadsOldAddressesOn)
	t.Run("nginx redirects by an export of links", redirectsByAnExport)
	t.Run("links are exported through nginx", func(t *testing.T) { // which drops trailers
		status, _, err := create(t.Context(), fronts["nginx"].api)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, status)
		c, err := client.New(fronts["nginx"].api, "")
		require.NoError(t, err)
		defer c.Close()
		got, err := c.Links.Export(t.Context(), client.Filter{}, "csv", false, "", 1000, io.Discard)
		require.NoError(t, err)
		require.Positive(t, got.Links)
	})
	t.Run("creates go on when a control plane is killed", func(t *testing.T) {
		w.controls[0].Kill()
		for range 4 { // each control plane would have had its turn twice
			status, _, err := create(t.Context(), fronts["haproxy"].api)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, status)
		}
		// The others may send a create on a connection that is gone, and do not repeat it:
		// that is for the client, with its Idempotency-Key.
		for _, name := range []string{"nginx", "caddy"} {
			for i := range 4 {
				key := fmt.Sprint(name, i)
				eventually(t, name+" reaches the control plane that is left", func() bool {
					status, _, err := create(t.Context(), fronts[name].api, "Idempotency-Key", key)
					return err == nil && status == http.StatusCreated
				})
			}
		}
	})
}

func (w *world) nginx(t *testing.T) *front {
	return startFront(t, "nginx", nginxArgs, func(edges, api, dir string) map[string]string {
		return map[string]string{
			"nginx.conf": nginxMain(dir),
			"waypost.conf": configure(t, "nginx/waypost.conf",
				"listen 80;", "listen "+edges+";", "listen 8080;", "listen "+api+";",
				"10.0.0.2:8081", w.plain.Addr, "10.0.0.4:8081", w.plain.Addr,
				"10.0.0.1:8080", hostOf(w.controls[0].API), "10.0.0.3:8080", hostOf(w.controls[1].API),
				"/etc/nginx/waypost-authority.pem", w.authority),
		}
	})
}

// documentedLocations returns the locations of the page about moving.
func documentedLocations(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/moving.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(page), "```nginx\n")
	require.True(t, found)
	block, _, found = strings.Cut(block, "```")
	require.True(t, found)
	return block
}

// A browser lets the page of the origin ask with a key and read the answer, and no other
// page. It sends no cookies either way.
func letsAPageAsk(t *testing.T, f *front) {
	asks := func(method, origin string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, f.api+"/api/v1/urls?limit=1", http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Origin", origin)
		r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		r.Header.Set("Access-Control-Request-Headers", "content-type,x-api-key")
		res, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Contains(t, strings.Join(res.Header.Values("Vary"), ", "), "Origin")
		require.Empty(t, res.Header.Get("Access-Control-Allow-Credentials"))
		return res
	}
	const tool = "https://tool.example.com"
	for method, status := range map[string]int{http.MethodOptions: http.StatusNoContent, http.MethodGet: http.StatusOK} {
		res := asks(method, tool)
		require.Equal(t, status, res.StatusCode)
		require.Equal(t, []string{tool}, res.Header.Values("Access-Control-Allow-Origin"))
		if method == http.MethodOptions {
			require.Contains(t, res.Header.Get("Access-Control-Allow-Methods"), http.MethodPost)
			require.Contains(t, res.Header.Get("Access-Control-Allow-Headers"), "x-api-key")
		}
		require.Empty(t, asks(method, "https://other.example").Header.Values("Access-Control-Allow-Origin"))
	}
}

var (
	nginxArgs   = []string{"-e", "stderr", "-p", ".", "-c", "nginx.conf"}
	haproxyArgs = []string{"-db", "-f", "haproxy.cfg", "-f", "waypost.cfg"}
	caddyArgs   = []string{"run", "--adapter", "caddyfile", "--config", "Caddyfile"}
)

const haproxyMain = "global\n    maxconn 1000\n"

// nginxMain is Debian's nginx.conf, for any user and with everything in one directory.
func nginxMain(dir string) string {
	return fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log stderr; worker_processes 2;
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	include %[1]s/waypost.conf;
}`, dir)
}

func (w *world) haproxy(t *testing.T) *front {
	return startFront(t, "haproxy", haproxyArgs, func(edges, api, _ string) map[string]string {
		return map[string]string{
			"haproxy.cfg": haproxyMain,
			"waypost.cfg": configure(t, "haproxy/waypost.cfg", "bind :80\n", "bind "+edges+"\n", "bind :8080\n", "bind "+api+"\n",
				"10.0.0.2:8081 port 9081", w.withProxy.Addr+" port "+portOf(w.withProxy.Admin),
				"10.0.0.4:8081 port 9081", w.withProxy.Addr+" port "+portOf(w.withProxy.Admin),
				"10.0.0.1:8080 port 9080", hostOf(w.controls[0].API)+" port "+portOf(w.controls[0].Admin),
				"10.0.0.3:8080 port 9080", hostOf(w.controls[1].API)+" port "+portOf(w.controls[1].Admin),
				"/etc/haproxy/waypost-authority.pem", w.authority),
		}
	})
}

func (w *world) caddy(t *testing.T) *front {
	return startFront(t, "caddy", caddyArgs, func(edges, api, _ string) map[string]string {
		return map[string]string{"Caddyfile": configure(t, "caddy/Caddyfile",
			"\n{\n", "\n{\n\tadmin off\n\tauto_https off\n",
			"\ngo.example.com {", "\nhttp://:"+portOf(edges)+" {\n\tbind 127.0.0.1",
			"\ncontrol.example.com {", "\nhttp://:"+portOf(api)+" {\n\tbind 127.0.0.1\n",
			"10.0.0.2:8081 10.0.0.4:8081", w.plain.Addr, "health_port 9081", "health_port "+portOf(w.plain.Admin),
			"https://10.0.0.1:8080 https://10.0.0.3:8080", w.controls[0].API+" "+w.controls[1].API,
			"/etc/caddy/waypost-authority.pem", w.authority)}
	})
}

func hostOf(url string) string {
	return strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "https://")
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(hostOf(address))
	return port
}

// Four clicks of three addresses are of three visitors, whatever one of them claims. If
// the front's address counted, or the claim, they would be of two.
func (w *world) namesTheVisitor(t *testing.T, f *front) {
	var code string
	eventually(t, "a link is created through the front", func() bool {
		var status int
		var err error
		status, code, err = create(t.Context(), f.api)
		return err == nil && status == http.StatusCreated
	})
	eventually(t, "the edge has the link", func() bool {
		status, _, err := ask(t.Context(), http.MethodHead, f.edges+"/"+code, "127.0.0.2", "", "Host", "go.example.com")
		return err == nil && status == http.StatusFound
	})
	visit := func(from string, headers ...string) {
		t.Helper()
		status, text, err := ask(t.Context(), http.MethodGet, f.edges+"/"+code, from, "", append(headers, "Host", "go.example.com")...)
		require.NoError(t, err)
		require.Equal(t, http.StatusFound, status, "%s", text)
	}
	visit("127.0.0.2")
	visit("127.0.0.3")
	visit("127.0.0.8")
	visit("127.0.0.8", "X-Forwarded-For", "203.0.113.9")
	var got struct {
		Clicks int `json:"clicks"`
		Unique int `json:"unique_visitors"`
	}
	eventually(t, "four clicks are counted", func() bool {
		status, text, err := ask(t.Context(), http.MethodGet, w.controls[1].API+"/api/v1/urls/"+code+"/stats", "", "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, "%s", text)
		require.NoError(t, json.Unmarshal(text, &got))
		return got.Clicks == 4
	})
	require.Equal(t, 3, got.Unique)
}

// sendSlowly sends the beginning of a request.
func sendSlowly(t *testing.T, f *front) net.Conn {
	t.Helper()
	c, err := dialFrom("127.0.0.4").DialContext(t.Context(), "tcp", f.host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the front has closed it
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(c, "GET /slowly HTTP/1.1\r\nHost: go.example.com\r\nX-Slow: ")
	require.NoError(t, err)
	return c
}

// A request that does not arrive within five seconds ends, with 408 or without an answer,
// and long before idle connections do.
func isRefused(t *testing.T, c net.Conn) {
	answer, err := io.ReadAll(c)
	require.NoError(t, err, "the front waits for half a minute")
	if len(answer) > 0 {
		require.Regexp(t, `^HTTP/1.[01] 4\d\d `, string(answer))
	}
}

// What is too large ends at the front, and other visitors do not notice.
func refusesLargeRequests(t *testing.T, f *front) {
	for name, c := range map[string]struct {
		request string
		answers []int
	}{
		"a body with a length": {"POST /abcd HTTP/1.1\r\nContent-Length: 100000\r\n", []int{http.StatusRequestEntityTooLarge}},
		"a body without a length": {
			"POST /abcd HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", []int{http.StatusRequestEntityTooLarge, http.StatusLengthRequired},
		},
		"a header": {
			"GET /abcd HTTP/1.1\r\nX-Large: " + strings.Repeat("x", 40_000) + "\r\n", []int{http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge},
		},
	} {
		require.Contains(t, c.answers, largeRequest(t, f, c.request), name)
	}
	status, text, err := ask(t.Context(), http.MethodGet, f.edges+"/unknown", "127.0.0.5", "", "Host", "go.example.com")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status, "%s", text)
}

// largeRequest sends a request with 100,000 bytes, and returns the status of the answer.
func largeRequest(t *testing.T, f *front, head string) int {
	t.Helper()
	c, err := dialFrom("127.0.0.5").DialContext(t.Context(), "tcp", f.host)
	require.NoError(t, err)
	defer func() { _ = c.Close() }() // the front may have closed it
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(c, head+"Host: go.example.com\r\n\r\n")
	require.NoError(t, err)
	if strings.HasPrefix(head, "POST") {
		if strings.Contains(head, "chunked") {
			_, _ = io.WriteString(c, "7d0\r\n"+strings.Repeat("x", 2000)+"\r\n0\r\n\r\n") // the front may have answered
		} else {
			_, _ = io.WriteString(c, strings.Repeat("x", 2000)) // likewise
		}
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// An address that asks much faster than allowed gets 429, and another address nothing.
func limitsTheRate(t *testing.T, f *front) {
	transport := &http.Transport{DialContext: dialFrom("127.0.0.6").DialContext}
	defer transport.CloseIdleConnections()
	var statuses []int
	for range 2000 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, f.edges+"/unknown", http.NoBody)
		require.NoError(t, err)
		r.Host = "go.example.com"
		res, err := transport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		if !slices.Contains(statuses, res.StatusCode) {
			statuses = append(statuses, res.StatusCode)
		}
		if res.StatusCode == http.StatusTooManyRequests {
			break
		}
	}
	require.Equal(t, []int{http.StatusNotFound, http.StatusTooManyRequests}, statuses)
	status, _, err := ask(t.Context(), http.MethodGet, f.edges+"/unknown", "127.0.0.7", "", "Host", "go.example.com")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)
}

// leadsOldAddressesOn has nginx as docs/moving.md shows it: it leads the address of a
// code that is none here to the link's other code, and everything else to the edge.
func (w *world) leadsOldAddressesOn(t *testing.T) {
	f := startFront(t, "nginx", nginxArgs, func(edges, api, dir string) map[string]string {
		locations := strings.Replace(documentedLocations(t), "http://edge", "http://"+w.plain.Addr, 1)
		return map[string]string{
			"nginx.conf": nginxMain(dir), "waypost.conf": fmt.Sprintf("server { listen %s; listen %s; server_name go.example.com; %s }", edges, api, locations),
		}
	})
	_, code, err := create(t.Context(), w.controls[1].API)
	require.NoError(t, err)
	for path, want := range map[string]string{
		"/a,b": "302 https://go.example.com/a-b", "/a%2Cb": "302 https://go.example.com/a-b",
		"/" + code: "302 https://example.com/", "/a,c": "404 ",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.edges+path, http.NoBody)
		require.NoError(t, err)
		r.Host = "go.example.com"
		res, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, fmt.Sprint(res.StatusCode, " ", res.Header.Get("Location")), path)
	}
}

// redirectsByAnExport has nginx answer by the map that an export of links writes. It must
// answer as an edge does.
func redirectsByAnExport(t *testing.T) {
	var file strings.Builder
	unsaid, err := redirectfile.Write(&file, redirectfile.Nginx, []redirectfile.Link{
		{Code: "*", Target: "https://rest.example/{path}", Status: 302},
		{Code: "ab", Target: "https://low.example/", Status: 301},
		{Code: "AB", Target: "https://high.example/", Status: 308},
		{Code: "café/v1.2", Target: "https://x.example/a%20b", Status: 301, ForwardQuery: true},
		{Code: "docs/*", Target: "https://docs.example/d/{path}#top", Status: 302, ForwardQuery: true},
		{Code: "docs/{page}/print", Target: "https://print.example/{page}?p=1", Status: 307},
		{Code: "fwd", Target: "https://fwd.example/f", Status: 302, ForwardPath: true},
	})
	require.NoError(t, err)
	require.Empty(t, unsaid)
	f := startFront(t, "nginx", nginxArgs, func(edges, api, dir string) map[string]string {
		server := fmt.Sprintf("server { listen %s; listen %s; absolute_redirect off;\n", edges, api)
		for _, status := range []int{301, 302, 307, 308} {
			server += fmt.Sprintf("if ($redirect ~ \"^%d (.+)$\") { return %d $1; }\n", status, status)
		}
		return map[string]string{"nginx.conf": nginxMain(dir), "waypost.conf": file.String() + server + "}"}
	})
	for path, want := range map[string]string{
		"/ab":                      "301 https://low.example/",
		"/AB":                      "308 https://high.example/",
		"/caf%C3%A9/v1.2?q=1":      "301 https://x.example/a%20b?q=1",
		"/docs":                    "302 https://docs.example/d/#top",
		"/docs/a/b?q=1":            "302 https://docs.example/d/a/b?q=1#top",
		"/docs/intro/print":        "307 https://print.example/intro?p=1",
		"/fwd/x/y":                 "302 https://fwd.example/f/x/y",
		"/fwd":                     "302 https://fwd.example/f/",
		"/anything/else/than/that": "302 https://rest.example/anything/else/than/that",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.edges+path, http.NoBody)
		require.NoError(t, err)
		res, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, fmt.Sprint(res.StatusCode, " ", res.Header.Get("Location")), path)
	}
}

// A PROXY header brings nginx visitors with IPv6 addresses, which loopback lacks.
func (w *world) countsNetworks(t *testing.T) {
	f := startFront(t, "nginx", nginxArgs, func(edges, api, dir string) map[string]string {
		return map[string]string{
			"nginx.conf": nginxMain(dir),
			"waypost.conf": configure(t, "nginx/waypost.conf",
				"listen 80;", "listen "+edges+" proxy_protocol; set_real_ip_from 127.0.0.0/8; real_ip_header proxy_protocol;",
				"listen 8080;", "listen "+api+";", "10.0.0.2:8081", w.plain.Addr, "10.0.0.4:8081", w.plain.Addr,
				"10.0.0.1:8080", hostOf(w.controls[0].API), "10.0.0.3:8080", hostOf(w.controls[1].API),
				"/etc/nginx/waypost-authority.pem", w.authority),
		}
	})
	// asks sends up to n requests on one connection, and returns the first status other than
	// 404, if there is one.
	asks := func(from string, n int) int {
		t.Helper()
		c, err := net.Dial("tcp", f.host)
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, err = fmt.Fprintf(c, "PROXY TCP6 %s 2001:db8::80 50000 80\r\n", from)
		require.NoError(t, err)
		answers := bufio.NewReader(c)
		for range n {
			_, err := io.WriteString(c, "HEAD /unknown HTTP/1.1\r\nHost: go.example.com\r\n\r\n")
			require.NoError(t, err)
			res, err := http.ReadResponse(answers, &http.Request{Method: http.MethodHead})
			require.NoError(t, err)
			if res.StatusCode != http.StatusNotFound {
				return res.StatusCode
			}
		}
		return http.StatusNotFound
	}
	for name, c := range map[string]struct{ crowd, same, other string }{
		"a /64":              {"2001:db8:a:1::1", "2001:db8:a:1:ffff:a0a:d0d:2", "2001:db8:a:2::1"},
		"an address of IPv4": {"::ffff:192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.2"},
	} {
		// 200 at once are allowed.
		require.Equal(t, http.StatusTooManyRequests, asks(c.crowd, 2000), name)
		require.Equal(t, http.StatusTooManyRequests, asks(c.same, 150), name)
		require.Equal(t, http.StatusNotFound, asks(c.other, 150), name)
	}
}
