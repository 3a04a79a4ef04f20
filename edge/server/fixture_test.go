package server_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
	"waypost/internal/patterns"
	"waypost/rules"
)

const (
	target   = "https://example.org/a%20b?q=%C3%BC&q=1#top"
	hosted   = "go.example.com" // the second domain
	hostID   = waypost.DomainID(7)
	closed   = "closed.example" // the third one
	closedID = waypost.DomainID(8)
	expires  = 4_102_444_800_000 // Unix milliseconds: the year 2100
)

var errStore = errors.New("the store cannot be read")

// memoryLinks is a replica in memory.
type memoryLinks struct {
	links   map[waypost.DomainID]map[string]waypost.Record
	targets map[waypost.DomainID]waypost.DomainTargets
	traits  map[waypost.DomainID]waypost.DomainTraits
	fitting map[waypost.DomainID]*patterns.Index
	lookups atomic.Int64
}

func newMemoryLinks() *memoryLinks {
	link := func(status uint16, location string) waypost.Record {
		return waypost.Record{Kind: waypost.KindLink, Status: status, Payload: []byte(location)}
	}
	with := func(r waypost.Record, change func(*waypost.Record)) waypost.Record {
		change(&r)
		return r
	}
	ruled := func(list ...rules.Rule) waypost.Record {
		return with(link(302, target), func(r *waypost.Record) { r.Programme = compiled(list...) })
	}
	alias := func(of string) waypost.Record {
		return with(link(302, of), func(r *waypost.Record) { r.Flags = waypost.AliasOf })
	}
	m := &memoryLinks{links: map[waypost.DomainID]map[string]waypost.Record{
		waypost.DefaultDomain: {
			"found302":  link(302, target),
			"found301":  link(301, target),
			"found307":  link(307, target),
			"found308":  link(308, target),
			"expiring":  with(link(302, target), func(r *waypost.Record) { r.ExpiresAt = expires }),
			"expire301": with(link(301, target), func(r *waypost.Record) { r.ExpiresAt = expires }),
			"expire308": with(link(308, target), func(r *waypost.Record) { r.ExpiresAt = expires }),
			"disabled":  with(link(302, target), func(r *waypost.Record) { r.State = waypost.Disabled }),
			"deleted1":  with(link(302, target), func(r *waypost.Record) { r.State = waypost.Deleted }),
			"longlink":  link(302, "https://example.org/"+strings.Repeat("x", waypost.MaxPayload-20)),
			"badCRLF1":  link(302, "https://example.org/\r\nSet-Cookie: a=b"),
			"badNUL01":  link(302, "https://example.org/\x00"),
			"badEmpty":  link(302, ""),
			"badState":  link(200, target),
			"whereami":  link(302, "https://example.org/default"),
			"queried1":  with(link(302, target), func(r *waypost.Record) { r.Flags = waypost.ForwardQuery }),
			"forward1":  with(link(301, target), func(r *waypost.Record) { r.Flags = waypost.ForwardQuery | waypost.ForwardPath }),
			"forwgone":  with(link(301, target), func(r *waypost.Record) { r.Flags, r.State = waypost.ForwardPath, waypost.Deleted }),
			"agents01":  ruled(onAgent("ios", "ios"), onAgent("android", "android"), onAgent("bot", "bots")),
			"speaking":  ruled(onLanguage("en", "en"), onLanguage("de-CH", "ch"), onLanguage("de", "de")),
			"campaign": ruled(onQuery("utm_source", "mail"), onQuery("utm_source", "x"),
				rules.Rule{When: onQuery("gone", "1").When, Status: 410}),
			"visitors":    ruled(inSplit(rules.ByVisitor)),
			"cookies1":    ruled(inSplit(rules.ByCookie)),
			"networks":    ruled(rules.Rule{When: []rules.Condition{{Address: []string{"192.0.2.0/24", "2001:db8::/32"}}}, To: target + "-net"}),
			"unlisted":    ruled(rules.Rule{When: []rules.Condition{{Not: true, Agent: []string{"desktop"}}}, Status: 404}),
			"café":        link(302, target),
			"summer/2026": link(302, target),
			"alias001":    alias("1/forward1"),
			"alias002":    alias("1/alias001"),
			"alias003":    alias("1/unknown1"),
			"alias004":    alias("1/deleted1"),
			"alias005":    alias("8/whereami"),
			"forwbad1":    with(link(301, "https:///x"), func(r *waypost.Record) { r.Flags = waypost.ForwardPath }),
			"docs/*":      with(link(302, "https://example.org/d/{path}?q={query.q}#top"), func(r *waypost.Record) { r.Flags = waypost.ForwardQuery }),
			"docs/{page}/edit/{x}": ruled(rules.Rule{
				When: onQuery("q", "1").When, To: "https://example.org/edit/{page}",
			}),
			"kept/{x}": ruled(inSplit(rules.ByCookie)),
		},
		hostID:   {"alias001": alias("1/forward1"), "whereami": link(302, "https://example.org/hosted")},
		closedID: {"whereami": link(302, "https://example.org/closed")},
	}, targets: map[waypost.DomainID]waypost.DomainTargets{}, fitting: map[waypost.DomainID]*patterns.Index{}}
	for domain, links := range m.links {
		m.fitting[domain] = patterns.New(slices.Collect(maps.Keys(links)))
	}
	return m
}

func onAgent(agent, to string) rules.Rule {
	return rules.Rule{When: []rules.Condition{{Agent: []string{agent}}}, To: target + "-" + to}
}

func onLanguage(language, to string) rules.Rule {
	return rules.Rule{When: []rules.Condition{{Language: []string{language}}}, To: target + "-" + to}
}

func onQuery(key, value string) rules.Rule {
	return rules.Rule{When: []rules.Condition{{Query: &rules.Parameter{Key: key, Equals: &value}}}, To: target + "-" + value}
}

// inSplit returns a rule that divides all visitors.
func inSplit(by string) rules.Rule {
	return rules.Rule{Split: &rules.Split{By: by, Variants: []rules.Variant{{Weight: 3, To: target + "-1"}, {Weight: 2, To: target + "-2"}}}}
}

// compiled returns the programme of rules.
func compiled(list ...rules.Rule) []byte {
	programme, err := rules.Compile(&rules.Source{Rules: list}, &rules.Compiling{
		Target: func(url string) (original, location string, err error) { return url, url, nil },
		Status: 302, Key: [16]byte{1}, Now: time.UnixMilli(expires),
	})
	if err != nil {
		panic(err)
	}
	return programme
}

func (m *memoryLinks) Link(domain waypost.DomainID, code, buf []byte, rec *waypost.Record) ([]byte, bool, error) {
	m.lookups.Add(1)
	switch string(code) {
	case "failing1":
		return buf, false, errStore
	case "panicked":
		panic("a fault in the store")
	}
	r, ok := m.links[domain][string(code)]
	if !ok {
		return buf, false, nil
	}
	at := len(buf)
	buf = append(append(buf, code...), r.Payload...)
	r.Domain, r.Name, r.Payload = domain, buf[at:at+len(code):at+len(code)], buf[at+len(code):]
	*rec = r
	return buf, true, nil
}

func (m *memoryLinks) Patterns(domain waypost.DomainID) *patterns.Index {
	return m.fitting[domain]
}

func (m *memoryLinks) Domain(host []byte) (id waypost.DomainID, traits waypost.DomainTraits, known bool) {
	id, known = waypost.DefaultDomain, true
	switch string(host) {
	case "wayp.example":
	case hosted:
		id = hostID
	case closed:
		id = closedID
	default:
		known = false
	}
	return id, m.traits[id].With(waypost.Maintained, len(m.targets[id].Maintenance) > 0), known
}

// Waits poll until their limit.
const (
	waitLimit = 60 * time.Second
	pollEvery = time.Millisecond
)

func (m *memoryLinks) Targets(domain waypost.DomainID) waypost.DomainTargets {
	return m.targets[domain]
}

// serve starts a server on loopback and ends it with the test.
func serve(t *testing.T, cfg server.Config) (*server.Server, string) {
	t.Helper()
	return serveOn(t, "127.0.0.1:0", cfg)
}

func serveOn(t *testing.T, listen string, cfg server.Config) (*server.Server, string) {
	t.Helper()
	ln, err := net.Listen("tcp", listen)
	require.NoError(t, err)
	return start(t, cfg, func(s *server.Server) error { return s.Serve(ln) }), ln.Addr().String()
}

// overBothFamilies runs a test over IPv4 and over IPv6 at the same time, each on its
// own server.
func overBothFamilies(t *testing.T, test func(t *testing.T, listen string)) {
	t.Helper()
	for name, listen := range map[string]string{"over IPv4": "127.0.0.1:0", "over IPv6": "[::1]:0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, listen)
		})
	}
}

func serveTLS(t *testing.T, cfg server.Config, tlsConfig *tls.Config) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	start(t, cfg, func(s *server.Server) error { return s.ServeTLS(ln, tlsConfig) })
	return ln.Addr().String()
}

func start(t testing.TB, cfg server.Config, run func(*server.Server) error) *server.Server {
	t.Helper()
	if cfg.Links == nil {
		cfg.Links = newMemoryLinks()
	}
	if cfg.DrainTime == 0 {
		cfg.DrainTime = time.Millisecond
	}
	s := server.New(patient(cfg))
	done := make(chan error, 1)
	go func() { done <- run(s) }()
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown(context.Background())) // the test's own context has ended
		require.NoError(t, <-done)
	})
	return s
}

// patient sets timeouts that outlast a stall of the machine, unless a test sets its own.
func patient(cfg server.Config) server.Config {
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, time.Hour)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, time.Hour)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 12*time.Hour)
	return cfg
}

// certificate returns the server's and the client's side of a certificate for
// example.com.
func certificate(t *testing.T) (srv, client *tls.Config) {
	t.Helper()
	issuer := httptest.NewUnstartedServer(http.NotFoundHandler())
	issuer.StartTLS()
	srv = &tls.Config{Certificates: issuer.TLS.Certificates}
	client = issuer.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	issuer.Close()
	client.ServerName = "example.com"
	return srv, client
}

// answer is a response with its whole body.
type answer struct {
	*http.Response
	body string
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(waitLimit)))
	return c
}

// say sends a request as it stands, on a connection of its own, and reads all
// answers until the server ends it or, when it keeps it open, one.
func say(t *testing.T, addr, request string) answer {
	t.Helper()
	c := dial(t, addr)
	_, err := io.WriteString(c, request)
	require.NoError(t, err)
	return read(t, bufio.NewReader(c), strings.HasPrefix(request, "HEAD "))
}

func read(t *testing.T, r *bufio.Reader, head bool) answer {
	t.Helper()
	req := &http.Request{Method: http.MethodGet}
	if head {
		req.Method = http.MethodHead
	}
	res, err := http.ReadResponse(r, req)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return answer{res, string(body)}
}

// get asks for a path with a host and more header lines.
func get(t *testing.T, addr, path, host string, lines ...string) answer {
	t.Helper()
	return say(t, addr, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n"+join(lines)+"\r\n")
}

func join(lines []string) string {
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l + "\r\n")
	}
	return b.String()
}

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
