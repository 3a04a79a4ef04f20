package edge

import (
	"net"
	"net/netip"

	"github.com/valyala/fasthttp"
)

// WatchClients tells the visitor's address of each request; before Serve.
func WatchClients(s *Server, tell func(netip.Addr)) {
	s.http.Handler = func(ctx *fasthttp.RequestCtx) {
		tell(s.clientOf(ctx, visitorOf(ctx)))
		s.handle(ctx)
	}
}

// WatchBegin tells when the first byte of a request has come; before Serve.
func WatchBegin(s *Server, tell func()) {
	s.http.ConnState = func(c net.Conn, state fasthttp.ConnState) {
		s.follow(c, state)
		if state == fasthttp.StateActive {
			tell()
		}
	}
}

// EndAll ends the connections that wait, as Shutdown does after its DrainTime.
func EndAll(s *Server) { s.roster.end() }

// ClientAllocates gives how often finding a visitor's address allocates.
func ClientAllocates(run func(func()) float64, forwardedFor string) float64 {
	s := New(Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	v := &visitor{peer: netip.MustParseAddr("10.0.0.1"), trusted: true}
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.Set("X-Forwarded-For", forwardedFor)
	return run(func() { s.clientOf(&ctx, v) })
}
