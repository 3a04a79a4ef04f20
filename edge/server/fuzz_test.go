package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
	"waypost/rules"
)

// takenClicks keeps the recorded clicks.
type takenClicks struct {
	mu    sync.Mutex
	taken []waypost.Click
}

func (c *takenClicks) Record(click waypost.Click) {
	c.mu.Lock()
	defer c.mu.Unlock()
	click.Code = bytes.Clone(click.Code)
	click.Agent, click.Referrer = append([]byte{}, click.Agent...), append([]byte{}, click.Referrer...)
	c.taken = append(c.taken, click)
}

// take returns the clicks since the last call.
func (c *takenClicks) take() []waypost.Click {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.taken
	c.taken = nil
	return taken
}

// FuzzFastPath_AnswersLikeTheHandler sends bytes over real TCP connections to a server
// with the fast path and to one without. Whatever the bytes, the trust in their sender
// and the places where writes cut them, both servers give the same answers, count the
// same clicks, and end the connection at the same place.
func FuzzFastPath_AnswersLikeTheHandler(f *testing.F) {
	const host = "Host: wayp.example\r\n"
	for _, seed := range []string{
		goodRequest,
		goodRequest + goodRequest,
		"GET /unknown1 HTTP/1.1\r\n" + host + "Accept: text/html\r\n\r\n",
		"GET /deleted1 HTTP/1.1\r\n" + host + "Accept: text/html;q=0.1, application/json\r\n\r\n",
		"GET /expire301 HTTP/1.1\r\n" + host + "\r\n",
		"GET /queried1?a=b&c=%20 HTTP/1.1\r\n" + host + "User-Agent: Googlebot/2.1\r\nReferer: https://a.example/\r\n\r\n",
		"GET /queried1?a=\"<>\\^`{|} HTTP/1.1\r\n" + host + "\r\n",
		"GET /docs/a/b?q=/x HTTP/1.1\r\n" + host + "\r\nGET /d%6fcs/a%20+ HTTP/1.1\r\n" + host + "\r\n",
		"GET /docs/a/edit/b?q=1 HTTP/1.1\r\n" + host + "\r\nGET /docs/a/edit/b+ HTTP/1.1\r\n" + host + "\r\n",
		"GET /docs/../a HTTP/1.1\r\n" + host + "\r\nGET /docs///a.example HTTP/1.1\r\n" + host + "\r\n",
		"GET /forward1/a/b?c HTTP/1.1\r\n" + host + "\r\n",
		"GET /%66ound302 HTTP/1.1\r\n" + host + "\r\nGET /cafe%CC%81 HTTP/1.1\r\n" + host + "\r\nGET /caf%c3%a9+ HTTP/1.1\r\n" + host + "\r\n",
		"GET /summer/2026?x HTTP/1.1\r\n" + host + "\r\nGET /summer/2026/ HTTP/1.1\r\n" + host + "\r\nGET /summer/2026+ HTTP/1.1\r\n" + host + "\r\n",
		"GET /f%6frward1/a/%2e%2e HTTP/1.1\r\n" + host + "\r\nGET /forward1//a.example HTTP/1.1\r\n" + host + "\r\nGET /found302/% HTTP/1.1\r\n" + host + "\r\n",
		"GET /whereami HTTP/1.1\r\nHost: GO.example.com:8080\r\n\r\n",
		"GET /whereami HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
		"GET /whereami HTTP/1.1\r\nHost: [abc]\r\n\r\n",
		"GET /whereami HTTP/1.1\r\nHost: []\r\n\r\n",
		"GET /whereami HTTP/1.1\r\nHost: [1:2]\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Trailer: Host\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "trailer: ,\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Purpose: preview\r\n\r\n",
		"GET /unknown1 HTTP/1.1\r\n" + host + "Accept: */*\r\nAccept: text/html\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Connection: Keep-Alive\r\n\r\n" + goodRequest,
		"GET /found302 HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n" + goodRequest,
		"GET /found302 HTTP/1.1\r\n" + host + "Sec-Purpose: prefetch\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Host: go.example.com\r\n\r\n",
		"GET /whereami HTTP/1.1\r\n" + host + "X-Forwarded-Host: wayp.example, GO.example.com:8080\r\nX-Forwarded-Proto: https\r\n\r\n",
		"GET /whereami HTTP/1.1\r\n" + host + "X-Forwarded-Host: go.example.com,\r\n\r\n",
		"GET /whereami HTTP/1.1\r\n" + host + "X-Forwarded-Host: go.example.com\r\nX-Forwarded-Host: wayp.example\r\n\r\n",
		"GET /whereami HTTP/1.1\r\nHost: a b\r\nX-Forwarded-Host: go.example.com\r\n\r\n",
		"GET /whereami HTTP/1.1\r\n" + host + "X-Forwarded-Host: a b\r\n\r\n",
		"GET /found307?x HTTP/1.1\r\n" + host + "Accept: text/html\r\n\r\nGET /found307 HTTP/1.1\r\n" + host + "\r\n",
		"GET /found308 HTTP/1.1\r\nHost: " + hosted + "\r\n\r\nGET /found307/a HTTP/1.1\r\n" + host + "\r\n",
		"GET /badCRLF1 HTTP/1.1\r\n" + host + "\r\n",
		"GET /failing1 HTTP/1.1\r\n" + host + "\r\n",
		"GET /panicked HTTP/1.1\r\n" + host + "\r\n",
		"GET /health HTTP/1.1\r\n" + host + "\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X: \x01\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X: \x80\xff\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X:\ty\t\r\nY:\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Expect: 100-continue\r\n\r\n",
		"GET /found302 HTTP/1.1\r\nHost:\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + host + "\r\n",
		"GET /found302 HTTP/1.1\r\nHost: a b\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "User-Agent: a\r\nUser-Agent: bot\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X-Forwarded-For: 192.0.2.7, 2001:db8::1\r\nReferer:   https://a.example/private \r\nUser-Agent:  \xffa  b \r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 192.0.2.8\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Referer: a\r\nReferer: https://b\r\nX-Forwarded-For: x\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Accept-Language: de-CH,de;q=0.9\r\nCookie: a=b; c=d\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Accept-Language: de\r\nAccept-Language: en\r\nCookie: a=b\r\ncookie: c=d\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Accept-Language:\r\nCookie: \r\n\r\n",
		"GET /agents01 HTTP/1.1\r\n" + host + "User-Agent: Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604.1\r\n\r\n",
		"GET /agents01 HTTP/1.1\r\n" + host + "User-Agent: Googlebot/2.1\r\nUser-Agent: Mozilla/5.0 (Linux; Android 15)\r\n\r\n",
		"GET /unlisted HTTP/1.1\r\n" + host + "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\r\n",
		"GET /speaking HTTP/1.1\r\n" + host + "Accept-Language: de-CH,de;q=0.9\r\n\r\n",
		"GET /speaking HTTP/1.1\r\n" + host + "Accept-Language: fr;q=0.95, en;q=0.9\r\naccept-language: de\r\n\r\n",
		"GET /campaign?utm_source=mail&gone=1 HTTP/1.1\r\n" + host + "\r\n",
		"GET /campaign?a&utm_source=%78;gone=1 HTTP/1.1\r\n" + host + "\r\n",
		"GET /campaign?gone=1 HTTP/1.1\r\n" + host + "\r\nGET /networks HTTP/1.1\r\n" + host + "\r\n",
		"GET /visitors HTTP/1.1\r\n" + host + "User-Agent: a\r\nX-Forwarded-For: 192.0.2.7, 2001:db8::1\r\n\r\n",
		"GET /networks HTTP/1.1\r\n" + host + "X-Forwarded-For: 203.0.113.1, 192.0.2.7\r\n\r\n",
		"GET /cookies1 HTTP/1.1\r\n" + host + "Cookie: a=b; " + rules.VariantCookie + "=2\r\n\r\n",
		"GET /cookies1 HTTP/1.1\r\n" + host + "Cookie: " + rules.VariantCookie + "=1\r\nCookie: " + rules.VariantCookie + "=2\r\n\r\n",
		"GET /cookies1 HTTP/1.1\r\n" + host + "User-Agent: b\r\nCookie: " + rules.VariantCookie + "=9\r\n\r\n",
		"GET /damaged1 HTTP/1.1\r\n" + host + "User-Agent: bot\r\n\r\n",
		"GET /whereami HTTP/1.1\r\nHost: " + closed + "\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + ": x\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X : y\r\n\r\n",
		"GET /found302  HTTP/1.1\r\n" + host + "\r\n",
		"GET /found302#x HTTP/1.1\r\n" + host + "\r\n",
		"GET /found302?%zz HTTP/1.1\r\nHost: a%41\r\n\r\n",
	} {
		f.Add([]byte(seed), uint8(0), true)
		f.Add([]byte(seed), uint8(7), false)
	}
	fast := map[bool]*fuzzServer{false: newFuzzServer(f, false, false), true: newFuzzServer(f, true, false)}
	plain := map[bool]*fuzzServer{false: newFuzzServer(f, false, true), true: newFuzzServer(f, true, true)}
	f.Fuzz(func(t *testing.T, sent []byte, cut uint8, trusted bool) {
		fastAnswers, fastClicks := fast[trusted].exchange(t, sent, int(cut)%50)
		plainAnswers, plainClicks := plain[trusted].exchange(t, sent, int(cut)%50)
		require.Equal(t, plainClicks, fastClicks)
		require.Equal(t, answersOf(t, plainAnswers), answersOf(t, fastAnswers))
	})
}

// fuzzServer is a server on loopback with the clicks that it has recorded.
type fuzzServer struct {
	addr   string
	clicks takenClicks
}

func newFuzzServer(f *testing.F, trusted, withoutFastPath bool) *fuzzServer {
	f.Helper()
	links := newMemoryLinks()
	links.targets[hostID] = waypost.DomainTargets{NotFound: []byte("https://example.org/lost")}
	links.targets[closedID] = waypost.DomainTargets{Maintenance: []byte("https://example.org/soon")}
	damaged := links.links[waypost.DefaultDomain]["agents01"]
	damaged.Programme = damaged.Programme[:len(damaged.Programme)-1]
	links.links[waypost.DefaultDomain]["damaged1"] = damaged
	// Chance may decide for a visitor without the cookie, but has one choice here.
	split, cookies := inSplit(rules.ByCookie), links.links[waypost.DefaultDomain]["cookies1"]
	split.Split.Variants[1].Weight = 0
	cookies.Programme = compiled(split)
	links.links[waypost.DefaultDomain]["cookies1"] = cookies
	now := time.UnixMilli(expires - 90_000)
	s := &fuzzServer{}
	cfg := server.Config{
		Links: links, Clicks: &s.clicks, Sealer: &openSealer{}, Clock: func() time.Time { return now },
		MaxStaleness: time.Second, Staleness: func() time.Duration { return time.Minute },
		// A client that ends its connection together with a later request waits for this.
		IdleTimeout: 100 * time.Millisecond,
		Blocks:      blocking(map[string]waypost.BlockPolicy{"/found307": waypost.BlockLegal, hosted + "/found308": waypost.BlockGone}),
		Contact:     "abuse@example.com",
	}
	if trusted {
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	s.addr = ln.Addr().String()
	start(f, cfg, func(srv *server.Server) error {
		if withoutFastPath {
			server.WithoutFastPath(srv)
		}
		return srv.Serve(ln)
	})
	return s
}

// exchange sends bytes on a new connection, in writes of cut bytes (0: all at once), ends
// its side, and returns the answers and the clicks of them.
func (s *fuzzServer) exchange(t *testing.T, sent []byte, cut int) ([]byte, []waypost.Click) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", s.addr, waitLimit)
	require.NoError(t, err)
	defer conn.Close() // again, after a failure
	require.NoError(t, conn.SetDeadline(time.Now().Add(waitLimit)))
	written := make(chan struct{})
	go func() {
		defer close(written)
		for len(sent) > 0 {
			n := len(sent)
			if cut > 0 {
				n = min(n, cut)
			}
			if _, err := conn.Write(sent[:n]); err != nil {
				return // the server has ended the connection
			}
			sent = sent[n:]
		}
		_ = conn.(*net.TCPConn).CloseWrite() // likewise
	}()
	answers, err := io.ReadAll(conn)
	if !errors.Is(err, syscall.ECONNRESET) { // bytes were left unread behind the last answer
		require.NoError(t, err)
	}
	_ = conn.Close() // the writer ends, and leaves the bytes to the fuzzer
	<-written
	return answers, s.clicks.take()
}

type plainAnswer struct {
	status int
	header http.Header
	body   string
}

// answersOf parses answers, and leaves out their dates.
func answersOf(t *testing.T, b []byte) (all []plainAnswer) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(b))
	for {
		res, err := http.ReadResponse(r, nil)
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		if err != nil { // an answer to a HEAD
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			body = append(body, "…"...)
		}
		require.NotEmpty(t, res.Header.Get("Date"))
		res.Header.Del("Date")
		all = append(all, plainAnswer{res.StatusCode, res.Header, string(body)})
	}
}
