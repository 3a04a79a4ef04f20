package server_test

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

func header1(source string) string { return "PROXY TCP4 " + source + " 10.0.0.1 4711 80\r\n" }

func header2(source string) string {
	addr := netip.MustParseAddr(source)
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x21, 0x21)
	b = binary.BigEndian.AppendUint16(b, 36)
	b = append(b, addr.AsSlice()...)
	b = append(b, netip.MustParseAddr("fd00::1").AsSlice()...)
	return string(append(b, 0x12, 0x34, 0, 80))
}

// headerLong returns a header with n bytes behind the length.
func headerLong(n int) string {
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x21, 0x11)
	b = append(binary.BigEndian.AppendUint16(b, uint16(n)), 203, 0, 113, 9, 10, 0, 0, 1, 0x12, 0x34, 0, 80, 4)
	b = binary.BigEndian.AppendUint16(b, uint16(n-12-3))
	return string(append(b, make([]byte, n-12-3)...))
}

const headerLocal = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"

func TestATrustedProxyBeginsWithAPROXYHeader(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	_, addr := serve(t, server.Config{ProxyProtocol: true, TrustedProxies: loopback(), Metrics: registry})
	for name, header := range map[string]string{
		"version 1":                  header1("203.0.113.9"),
		"version 1, unknown":         "PROXY UNKNOWN\r\n",
		"version 2":                  header2("2001:db8::7"),
		"version 2, the proxy's own": headerLocal,
		"version 2, over a socket":   "\r\n\r\n\x00\r\nQUIT\n\x21\x31\x00\xd8" + strings.Repeat("\x00", 216),
		"version 2, long":            headerLong(4096),
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, addr)
			requireServed(t, conn, header+goodRequest) // in one segment
			requireServed(t, conn, goodRequest)        // once per connection is enough

			if header[0] == 'P' { // of version 1 a header comes whole
				return
			}
			conn = dial(t, addr)
			for i := range len(header) { // byte by byte
				_, err := conn.Write([]byte{header[i]})
				require.NoError(t, err)
			}
			requireServed(t, conn, goodRequest)
		})
	}
	require.Empty(t, refusals(t, registry))
}

func TestATrustedProxyWithoutAPROXYHeaderIsRefusedWithoutAWord(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	late, addr := &lateListener{Listener: ln}, ln.Addr().String()
	start(t, server.Config{ProxyProtocol: true, TrustedProxies: loopback(), ReadTimeout: 100 * time.Millisecond, Metrics: registry},
		func(s *server.Server) error { return s.Serve(late) })
	for name, sent := range map[string]string{
		"a request":                      goodRequest,
		"a malformed header":             "PROXY TCP4 203.0.113.999 10.0.0.1 1 2\r\n" + goodRequest,
		"half a header":                  "PROXY TCP4 203.0.113.9",
		"a header above the limit":       headerLong(4097),
		"half a header, version 2":       headerLocal[:13],
		"a header that is cut off by LF": "PROXY UNKNOWN\n" + goodRequest,
	} {
		t.Run(name, func(t *testing.T) {
			late.begin(int64(len(sent)))
			conn := dial(t, addr)
			_, err := io.WriteString(conn, sent)
			require.NoError(t, err)
			got, err := io.ReadAll(conn)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Empty(t, got)
		})
	}
	require.Equal(t, map[string]float64{"proxy_header": 6}, refusals(t, registry))

	t.Run("who only looks whether the port is open is not counted", func(t *testing.T) {
		late.begin(0)
		require.NoError(t, dial(t, addr).Close())
		got, err := io.ReadAll(dial(t, addr)) // and who says nothing until the time is over
		require.NoError(t, err)
		require.Empty(t, got)
		require.Equal(t, map[string]float64{"proxy_header": 6}, refusals(t, registry))
	})
}

func TestASecondPROXYHeaderIsNoRequest(t *testing.T) {
	_, addr := serve(t, server.Config{ProxyProtocol: true, TrustedProxies: loopback()})
	conn := dial(t, addr)
	_, err := io.WriteString(conn, header1("203.0.113.9")+header1("203.0.113.10")+goodRequest)
	require.NoError(t, err)
	require.Equal(t, 400, read(t, bufio.NewReader(conn), false).StatusCode)
}

func TestAStrangersPROXYHeaderIsARequestLikeAnyOther(t *testing.T) {
	elsewhere := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	_, addr := serve(t, server.Config{ProxyProtocol: true, TrustedProxies: elsewhere})
	require.Equal(t, 400, say(t, addr, header1("203.0.113.9")+goodRequest).StatusCode)
	requireServed(t, dial(t, addr), goodRequest) // he needs none
}

// TestTheAddressInAPROXYHeaderIsLimited: many visitors behind one proxy have a limit
// each, and IPv6 addresses of one /64 have one together.
func TestTheAddressInAPROXYHeaderIsLimited(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	_, addr := serve(t, server.Config{ProxyProtocol: true, TrustedProxies: loopback(), MaxConnectionsPerAddress: 2, Metrics: registry})
	for _, source := range []string{"2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1", "2001:db8:0:1::2"} {
		requireServed(t, dial(t, addr), header2(source)+goodRequest)
	}
	for _, source := range []string{"203.0.113.9", "203.0.113.9", "203.0.113.10"} {
		requireServed(t, dial(t, addr), header1(source)+goodRequest)
	}
	for _, header := range []string{header2("2001:db8::2"), header2("2001:db8:0:1:ffff::"), header1("203.0.113.9")} {
		conn := dial(t, addr)
		_, err := io.WriteString(conn, header)
		require.NoError(t, err)
		requireRefused(t, conn)
	}
	require.Equal(t, map[string]float64{"address": 3}, refusals(t, registry))
}

func TestForwardedHeadersCountOnlyFromTrustedProxies(t *testing.T) {
	const byDefault, byHost = "https://example.org/default", "https://example.org/hosted"
	behind := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("203.0.113.0/24")}
	const request = "GET /whereami HTTP/1.1\r\nHost: wayp.example\r\nX-Forwarded-Host: " + hosted + "\r\n\r\n"
	_, addr := serve(t, server.Config{ProxyProtocol: true, TrustedProxies: behind})
	for name, c := range map[string]struct{ header, location string }{
		"a proxy behind a proxy is believed":                   {header1("203.0.113.9"), byHost},
		"a visitor who comes straight to the PROXY is not":     {header1("198.51.100.7"), byDefault},
		"the proxy itself is believed on its own connection":   {headerLocal, byHost},
		"a visitor over IPv6 is not believed more than others": {header2("2001:db8::7"), byDefault},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.location, say(t, addr, c.header+request).Header.Get("Location"))
		})
	}
}

// Cookies of visitors who came to the proxy over TLS are for TLS alone.
func TestCookies_AreSecureBehindATrustedProxyThatEndsTLS(t *testing.T) {
	links := newMemoryLinks()
	links.links[waypost.DefaultDomain]["secret01"] = protectedLink(t, 1, 8, 0)
	_, behind := serve(t, server.Config{Links: links, TrustedProxies: loopback()})
	_, direct := serve(t, server.Config{Links: links})
	for name, c := range map[string]struct {
		addr, header string
		secure       bool
	}{
		"over TLS":                          {behind, "X-Forwarded-Proto: https", true},
		"through two proxies":               {behind, "X-Forwarded-Proto: http, HTTPS", true},
		"through two proxies, in two lines": {behind, "X-Forwarded-Proto: http\r\nX-Forwarded-Proto: https", true},
		"in the clear":                      {behind, "X-Forwarded-Proto: http", false},
		"in the clear to the nearer proxy":  {behind, "X-Forwarded-Proto: https, http", false},
		"in a way that is not known":        {behind, "X-Other: 1", false},
		"of one who says so without one":    {direct, "X-Forwarded-Proto: https", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, res := range []answer{
				get(t, c.addr, "/cookies1", "wayp.example", c.header), get(t, c.addr, "/cookies1", "wayp.example", c.header, "Sec-Purpose: none"),
				postForm(t, c.addr, "/secret01", secret, c.header),
			} {
				require.Len(t, res.Cookies(), 1)
				require.Equal(t, c.secure, res.Cookies()[0].Secure)
				require.Empty(t, res.Header.Get("Strict-Transport-Security"), "that is the proxy's")
			}
		})
	}
}

func TestThePROXYHeaderComesBeforeTheHandshake(t *testing.T) {
	srv, client := certificate(t)
	registry := prometheus.NewPedanticRegistry()
	addr := serveTLS(t, server.Config{ProxyProtocol: true, TrustedProxies: loopback(), Metrics: registry}, srv)
	raw := dial(t, addr)
	_, err := io.WriteString(raw, header2("2001:db8::7"))
	require.NoError(t, err)
	conn := tls.Client(raw, client)
	requireServed(t, conn, goodRequest)

	raw = dial(t, addr)
	require.Error(t, tls.Client(raw, client).Handshake(), "not without one")
	require.EqualValues(t, 1, refusals(t, registry)["proxy_header"])
}

// TestTheVisitorsAddressIsKnown looks at what is recorded of a click.
func TestTheVisitorsAddressIsKnown(t *testing.T) {
	const v4, v6 = "127.0.0.1:0", "[::1]:0"
	for name, c := range map[string]struct {
		listen, trusted, header, sent, client string
	}{
		"of a visitor who comes straight here":               {v4, "", "", "X-Forwarded-For: 203.0.113.9\r\n", "127.0.0.1"},
		"of one who comes straight here over IPv6":           {v6, "", "", "X-Forwarded-For: 203.0.113.9\r\n", "::1"},
		"of one who is no proxy, while others are":           {v4, "10.0.0.0/8", "", "X-Forwarded-For: 203.0.113.9\r\n", "127.0.0.1"},
		"of one who is no proxy and speaks for one":          {v4, "10.0.0.0/8", "", "X-Forwarded-For: 203.0.113.9, 10.0.0.7\r\n", "127.0.0.1"},
		"of one who is no proxy over IPv6, while others are": {v6, "10.0.0.0/8 127.0.0.0/8 2001:db8::/32", "", "X-Forwarded-For: 203.0.113.9\r\n", "::1"},
		"behind a trusted proxy":                             {v4, "127.0.0.0/8 10.0.0.0/8", "", "X-Forwarded-For: 1.2.3.4, 203.0.113.9, 10.0.0.7\r\n", "203.0.113.9"},
		"behind a trusted proxy over IPv6":                   {v6, "::1/128", "", "X-Forwarded-For: 1.2.3.4, 203.0.113.9\r\n", "203.0.113.9"},
		"behind two trusted proxies over IPv6":               {v6, "::1/128 fd00::/8", "", "X-Forwarded-For: 2001:db8::7, fd00::1\r\n", "2001:db8::7"},
		"behind several lines":                               {v4, "127.0.0.0/8 10.0.0.0/8", "", "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 10.0.0.7\r\n", "203.0.113.9"},
		"behind a proxy that says nothing":                   {v4, "127.0.0.0/8 10.0.0.0/8", "", "", "127.0.0.1"},
		"named in a PROXY header":                            {v4, "127.0.0.0/8", header1("203.0.113.9"), "", "203.0.113.9"},
		"named in a PROXY header, who invents another":       {v4, "127.0.0.0/8", header1("203.0.113.9"), "X-Forwarded-For: 1.2.3.4\r\n", "203.0.113.9"},
		"forwarded by the proxy that is named in the header": {v4, "127.0.0.0/8 10.0.0.0/8", header1("10.0.0.7"), "X-Forwarded-For: 1.2.3.4\r\n", "1.2.3.4"},
	} {
		for lane, line := range map[string]string{"by the express lane": "", "by the handler": "Sec-Purpose: none\r\n"} {
			t.Run(name+", "+lane, func(t *testing.T) {
				clicks := &wholeClicks{}
				cfg := server.Config{Clicks: clicks, Sealer: &openSealer{}, ProxyProtocol: c.header != ""}
				for _, prefix := range strings.Fields(c.trusted) {
					cfg.TrustedProxies = append(cfg.TrustedProxies, netip.MustParsePrefix(prefix))
				}
				_, addr := serveOn(t, c.listen, cfg)
				require.Equal(t, 302, say(t, addr, c.header+"GET /found302 HTTP/1.1\r\nHost: a\r\n"+c.sent+line+"\r\n").StatusCode)
				clicks.mu.Lock()
				defer clicks.mu.Unlock()
				require.Equal(t, c.client, netip.AddrFrom16(clicks.last.Address).Unmap().String())
			})
		}
	}
}
