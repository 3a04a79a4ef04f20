package server_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

type click struct {
	domain waypost.DomainID
	code   string
	at     int64
}

// memoryClicks keeps what is recorded.
type memoryClicks struct {
	mu   sync.Mutex
	list []click
}

func (m *memoryClicks) Record(c waypost.Click) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, click{c.Domain, string(c.Code), c.At})
}

func (m *memoryClicks) take() []click {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.list
	m.list = nil
	return list
}

func TestAClickIsAGETThatIsRedirected(t *testing.T) {
	recorded := &memoryClicks{}
	_, addr := serve(t, server.Config{Clicks: recorded, Clock: func() time.Time { return time.UnixMilli(expires - 1) }})

	for name, c := range map[string]struct {
		request string
		clicks  []click
	}{
		"a GET answered 301":             {"GET /found301 HTTP/1.1\r\nHost: wayp.example", []click{{1, "found301", expires - 1}}},
		"a GET answered 302":             {"GET /found302 HTTP/1.1\r\nHost: wayp.example", []click{{1, "found302", expires - 1}}},
		"a GET answered 307":             {"GET /found307?q=1 HTTP/1.1\r\nHost: wayp.example", []click{{1, "found307", expires - 1}}},
		"a GET answered 308":             {"GET /found308 HTTP/1.1\r\nHost: wayp.example", []click{{1, "found308", expires - 1}}},
		"a GET of a link yet to expire":  {"GET /expiring HTTP/1.1\r\nHost: wayp.example", []click{{1, "expiring", expires - 1}}},
		"a GET under another domain":     {"GET /whereami HTTP/1.1\r\nHost: " + hosted, []click{{hostID, "whereami", expires - 1}}},
		"a GET under an unknown host":    {"GET /whereami HTTP/1.1\r\nHost: unknown.example", []click{{1, "whereami", expires - 1}}},
		"a GET below a code":             {"GET /forward1/x/y?q HTTP/1.1\r\nHost: wayp.example", []click{{1, "forward1", expires - 1}}},
		"a GET that says Purpose":        {"GET /found301 HTTP/1.1\r\nHost: wayp.example\r\nPurpose: sale", []click{{1, "found301", expires - 1}}},
		"not a prefetch":                 {"GET /found302 HTTP/1.1\r\nHost: wayp.example\r\nSec-Purpose: prefetch;prerender", nil},
		"not a prefetch of old":          {"GET /found302 HTTP/1.1\r\nHost: wayp.example\r\nPurpose: prefetch", nil},
		"not a prefetch of Firefox":      {"GET /found302 HTTP/1.1\r\nHost: wayp.example\r\nx-moz: prefetch", nil},
		"not a preview":                  {"GET /found302+ HTTP/1.1\r\nHost: wayp.example", nil},
		"not a GET of no path":           {"GET /found302/x HTTP/1.1\r\nHost: wayp.example", nil},
		"not a GET of an asset":          {"GET /robots.txt HTTP/1.1\r\nHost: wayp.example", nil},
		"not a HEAD":                     {"HEAD /found302 HTTP/1.1\r\nHost: wayp.example", nil},
		"not a POST":                     {"POST /found302 HTTP/1.1\r\nHost: wayp.example", nil},
		"not a GET answered 404":         {"GET /unknown1 HTTP/1.1\r\nHost: wayp.example", nil},
		"not a GET answered 410":         {"GET /deleted1 HTTP/1.1\r\nHost: wayp.example", nil},
		"not a GET of no link at all":    {"GET / HTTP/1.1\r\nHost: wayp.example", nil},
		"not a GET that fails":           {"GET /failing1 HTTP/1.1\r\nHost: wayp.example", nil},
		"not a GET without a good place": {"GET /badCRLF1 HTTP/1.1\r\nHost: wayp.example", nil},
	} {
		t.Run(name, func(t *testing.T) {
			say(t, addr, c.request+"\r\n\r\n")
			require.Equal(t, c.clicks, recorded.take(), "it is recorded before it is answered")
		})
	}
}

func TestAPrefetchIsRedirectedAndIsNoClick(t *testing.T) {
	recorded := &memoryClicks{}
	_, addr := serve(t, server.Config{Clicks: recorded})
	for _, header := range []string{
		"Sec-Purpose: prefetch", "Sec-Purpose: prefetch;prerender", "Purpose: prefetch",
		"X-Purpose: prefetch", "x-purpose: prefetch", "X-Moz: prefetch",
		"X-Purpose: preview", "PURPOSE: Preview", "Sec-Purpose: Prefetch",
	} {
		res := get(t, addr, "/found302", "wayp.example", header)
		require.Equal(t, 302, res.StatusCode, header)
		require.Equal(t, target, res.Header.Get("Location"), header)
		require.Empty(t, recorded.take(), header)
	}
	get(t, addr, "/found302", "wayp.example", "X-Purpose: sale")
	require.Len(t, recorded.take(), 1)
}
