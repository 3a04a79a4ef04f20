package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

// takenClicks keeps what was recorded.
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

// FuzzTheExpressLaneAnswersLikeTheHandler: whatever the bytes, whoever sends them and
// wherever reads cut them, a server with the lane and one without give the same
// answers, count the same clicks and end the connection at the same place.
func FuzzTheExpressLaneAnswersLikeTheHandler(f *testing.F) {
	const host = "Host: wayp.example\r\n"
	for _, seed := range []string{
		goodRequest, goodRequest + goodRequest, "GET /unknown1 HTTP/1.1\r\n" + host + "Accept: text/html\r\n\r\n",
		"GET /deleted1 HTTP/1.1\r\n" + host + "Accept: text/html;q=0.1, application/json\r\n\r\n", "GET /expire301 HTTP/1.1\r\n" + host + "\r\n",
		"GET /queried1?a=b&c=%20 HTTP/1.1\r\n" + host + "User-Agent: Googlebot/2.1\r\nReferer: https://a.example/\r\n\r\n", "GET /queried1?a=\"<>\\^`{|} HTTP/1.1\r\n" + host + "\r\n",
		"GET /forward1/a/b?c HTTP/1.1\r\n" + host + "\r\n", "GET /whereami HTTP/1.1\r\nHost: GO.example.com:8080\r\n\r\n", "GET /whereami HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
		"GET /whereami HTTP/1.1\r\nHost: [abc]\r\n\r\n", "GET /whereami HTTP/1.1\r\nHost: []\r\n\r\n", "GET /whereami HTTP/1.1\r\nHost: [1:2]\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "Trailer: Host\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "trailer: ,\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Purpose: preview\r\n\r\n", "GET /unknown1 HTTP/1.1\r\n" + host + "Accept: */*\r\nAccept: text/html\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Connection: Keep-Alive\r\n\r\n" + goodRequest, "GET /found302 HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n" + goodRequest,
		"GET /found302 HTTP/1.1\r\n" + host + "Sec-Purpose: prefetch\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Host: go.example.com\r\n\r\n",
		"GET /whereami HTTP/1.1\r\n" + host + "X-Forwarded-Host: wayp.example, GO.example.com:8080\r\nX-Forwarded-Proto: https\r\n\r\n", "GET /whereami HTTP/1.1\r\n" + host + "X-Forwarded-Host: go.example.com,\r\n\r\n",
		"GET /whereami HTTP/1.1\r\n" + host + "X-Forwarded-Host: go.example.com\r\nX-Forwarded-Host: wayp.example\r\n\r\n", "GET /whereami HTTP/1.1\r\nHost: a b\r\nX-Forwarded-Host: go.example.com\r\n\r\n", "GET /whereami HTTP/1.1\r\n" + host + "X-Forwarded-Host: a b\r\n\r\n",
		"GET /badCRLF1 HTTP/1.1\r\n" + host + "\r\n", "GET /failing1 HTTP/1.1\r\n" + host + "\r\n", "GET /panicked HTTP/1.1\r\n" + host + "\r\n", "GET /health HTTP/1.1\r\n" + host + "\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X: \x01\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "X: \x80\xff\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "X:\ty\t\r\nY:\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "Expect: 100-continue\r\n\r\n",
		"GET /found302 HTTP/1.1\r\nHost:\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + host + "\r\n", "GET /found302 HTTP/1.1\r\nHost: a b\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "User-Agent: a\r\nUser-Agent: bot\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X-Forwarded-For: 192.0.2.7, 2001:db8::1\r\nReferer:   https://a.example/private \r\nUser-Agent:  \xffa  b \r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 192.0.2.8\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "Referer: a\r\nReferer: https://b\r\nX-Forwarded-For: x\r\n\r\n",
		"GET /found302 HTTP/1.1\r\n" + host + ": x\r\n\r\n", "GET /found302 HTTP/1.1\r\n" + host + "X : y\r\n\r\n", "GET /found302  HTTP/1.1\r\n" + host + "\r\n", "GET /found302#x HTTP/1.1\r\n" + host + "\r\n", "GET /found302?%zz HTTP/1.1\r\nHost: a%41\r\n\r\n",
	} {
		f.Add([]byte(seed), uint8(0), true)
		f.Add([]byte(seed), uint8(7), false)
	}
	now := time.UnixMilli(expires - 90_000)
	f.Fuzz(func(t *testing.T, sent []byte, cut uint8, trusted bool) {
		links := newMemoryLinks()
		links.targets[hostID] = waypost.DomainTargets{NotFound: []byte("https://example.org/lost")}
		run := func(prepare func(*server.Server)) ([]byte, []waypost.Click) {
			var clicks takenClicks
			cfg := server.Config{
				Links: links, Clicks: &clicks, Sealer: &openSealer{}, Clock: func() time.Time { return now },
				MaxStaleness: time.Second, Staleness: func() time.Duration { return time.Minute },
			}
			if trusted {
				cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
			}
			s := server.New(cfg)
			prepare(s)
			return server.Answer(t, s, sent, int(cut)%50), clicks.taken
		}
		express, expressClicks := run(func(*server.Server) {})
		plain, plainClicks := run(server.WithoutExpress)
		require.Equal(t, plainClicks, expressClicks)
		require.Equal(t, answersOf(t, plain), answersOf(t, express))
	})
}

type plainAnswer struct {
	status int
	header http.Header
	body   string
}

// answersOf reads answers, but for their dates.
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
