package server

import (
	"errors"

	"github.com/valyala/fasthttp"
)

const (
	// methodOfBody stands for GET and HEAD in a request that has a body. It is no
	// token, so that nobody can send it.
	methodOfBody = "(body)"

	// chunked is what fasthttp gives for the length of a body in chunks.
	chunked = -1
)

// refuseBody looks at a header before its body is read. It marks a GET or HEAD that
// has one with a method that fasthttp will not take: this hook has no better way to
// refuse, and once a body is read, one of no chunks is no longer told from none.
func refuseBody(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	length := header.ContentLength()
	if (length == chunked || length > 0) && (header.IsGet() || header.IsHead()) {
		header.SetMethod(methodOfBody)
	}
	return fasthttp.RequestConfig{}
}

// speaksHTTP1 reports whether a request is of a version that there is: fasthttp takes
// HTTP/0.0 and HTTP/7.3 for HTTP/1.0.
func speaksHTTP1(header *fasthttp.RequestHeader) bool {
	return header.IsHTTP11() || string(header.Protocol()) == "HTTP/1.0"
}

// refuse answers a request that breaks the protocol, and ends the connection.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, v *visitor, status int) {
	s.sendError(ctx, v, status)
	ctx.SetConnectionClose()
}

// refuseBroken answers what fasthttp could not read as a GET or HEAD request, and
// closes the connection.
func (s *Server) refuseBroken(ctx *fasthttp.RequestCtx, err error) {
	var (
		tooLong *fasthttp.ErrSmallBuffer
		timeout interface{ Timeout() bool }
		status  = fasthttp.StatusBadRequest
	)
	switch {
	case errors.As(err, &tooLong):
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.Is(err, fasthttp.ErrGetOnly) && string(ctx.Request.Header.Method()) == methodOfBody:
		if ctx.Request.Header.ContentLength() != chunked {
			status = fasthttp.StatusRequestEntityTooLarge
		}
	case errors.Is(err, fasthttp.ErrGetOnly):
		status = fasthttp.StatusMethodNotAllowed
		ctx.Response.Header.SetCanonical(headerAllow, getAndHead)
	case errors.As(err, &timeout) && timeout.Timeout():
		status = fasthttp.StatusRequestTimeout
	}
	s.refuse(ctx, visitorOf(ctx), status)
}

// refuseExpectation answers who waits for 100 Continue before he sends a body that
// no request here has: an answer before the answer is what proxies lose count by.
func (s *Server) refuseExpectation(ctx *fasthttp.RequestCtx) int {
	s.refuse(ctx, visitorOf(ctx), fasthttp.StatusBadRequest)
	return fasthttp.StatusBadRequest
}
