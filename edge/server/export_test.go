package server

import (
	"net"
	"net/netip"
	"time"

	"github.com/valyala/fasthttp"

	"waypost"
	"waypost/edge/fastpath"
)

// WithoutFastPath makes fasthttp answer every request. It comes before Serve.
func WithoutFastPath(s *Server) { s.noFastPath = true }

// WatchBegin calls begun after the first byte of each request. It comes before Serve.
func WatchBegin(s *Server, begun func()) {
	s.noFastPath = true
	s.http.ConnState = func(nc net.Conn, state fasthttp.ConnState) {
		s.follow(nc, state)
		if state == fasthttp.StateActive {
			begun()
		}
	}
}

// EndAll ends the waiting connections, as Shutdown does after its DrainTime.
func EndAll(s *Server) {
	s.registry.endConns(phaseWaiting)
	s.registry.endConns(phaseNew)
	s.registry.endConns(phaseHandshake)
}

// FindingClient returns a func that finds a visitor's address.
func FindingClient(forwardedFor string) func() {
	s := New(Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	c := &conn{peer: netip.MustParseAddr("10.0.0.1"), trusted: true}
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.Set("X-Forwarded-For", forwardedFor)
	return func() { s.clientOf(c, asked{http: &ctx}) }
}

// GuardLines returns a func that inspects one read of a connection again and again.
func GuardLines(b []byte) func() bool {
	var g lineGuard
	return func() bool { return g.fault(b) < 0 }
}

// Recorder returns a func that records a click. With forwardedFor the request came
// through a trusted proxy.
func Recorder(clicks Clicks, sealer Sealer, agent, referrer, forwardedFor string) func() {
	s := New(Config{Clicks: clicks, Sealer: sealer, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	c := &conn{peer: netip.MustParseAddr("10.0.0.1"), trusted: forwardedFor != ""}
	a, r, f, code := []byte(agent), []byte(referrer), []byte(forwardedFor), []byte("abc1234")
	by := asked{fast: &fastpath.Request{ForwardedFor: f}}
	return func() {
		s.recordClick(c, waypost.Click{Domain: 1, Code: code, Agent: a, Referrer: r, At: s.clickTime(time.Now())}, nil, s.clientOf(c, by))
	}
}

// OriginOf lets tests cut a referrer without a server.
func OriginOf(referrer []byte) []byte { return originOf(referrer) }

// ErrorBody returns the body of an error.
func ErrorBody(status int, page bool) (contentType string, body []byte) {
	return errorBody(status, page)
}

// PreviewHeaders returns the headers of previews by name.
func PreviewHeaders() map[string]string {
	headers := map[string]string{}
	for _, h := range previewHeaders {
		headers[h.name] = h.value
	}
	return headers
}
