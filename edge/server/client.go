package server

import (
	"net/netip"

	"github.com/valyala/fasthttp"
)

// clientOf gives the address of the visitor whose request this is: whom the PROXY
// header names or who is at the other end, or, when that is a trusted proxy, the
// right-most address in X-Forwarded-For that is none. It does not allocate. What it
// gives must not be logged, nor kept as it is.
func (s *Server) clientOf(ctx *fasthttp.RequestCtx, v *visitor) netip.Addr {
	if !v.trusted {
		return v.peer
	}
	return s.trusted.Client(v.peer, ctx.Request.Header.PeekAll("X-Forwarded-For"))
}

// forwardedClient is clientOf for a request with at most one X-Forwarded-For.
func (s *Server) forwardedClient(v *visitor, forwarded []byte) netip.Addr {
	if !v.trusted {
		return v.peer
	}
	v.forwarded[0] = forwarded
	return s.trusted.Client(v.peer, v.forwarded[:])
}
