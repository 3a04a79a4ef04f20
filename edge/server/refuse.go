package server

import (
	"errors"

	"github.com/valyala/fasthttp"

	"waypost/edge/fastpath"
)

const (
	// methodOfBody replaces GET and HEAD in a request that has a body. It is no token, so
	// that no client can send it.
	methodOfBody = "(body)"

	// chunked is the length that fasthttp reports for a body in chunks.
	chunked = -1
)

// refuseBody inspects a header before its body is read. It marks a GET or HEAD with a
// body by a method that fasthttp refuses, because this hook has no other way to refuse,
// and because a body of no chunks cannot be distinguished from no body once it is read.
// It makes the POST of a short form, which lineGuard knows, a GET, because fasthttp reads
// the body of no other method here.
func refuseBody(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	length := header.ContentLength()
	if header.IsPost() && length > 0 && isForm(header.ContentType()) && len(header.Peek(fasthttp.HeaderExpect)) == 0 {
		if length > maxForm {
			header.SetMethod(methodOfBody)
			return fasthttp.RequestConfig{}
		}
		header.SetMethod(fasthttp.MethodGet)
		return fasthttp.RequestConfig{MaxRequestBodySize: maxForm}
	}
	if (length == chunked || length > 0) && (header.IsGet() || header.IsHead()) {
		header.SetMethod(methodOfBody)
	}
	return fasthttp.RequestConfig{}
}

// isForm reports whether a media type, without regard to its parameters, is the type of a
// form.
func isForm(contentType []byte) bool {
	name, _ := cutSemicolon(contentType)
	return fastpath.EqualFold(name, "application/x-www-form-urlencoded")
}

// speaksHTTP1 reports whether a request has a version that exists, because fasthttp takes
// HTTP/0.0 and HTTP/7.3 for HTTP/1.0.
func speaksHTTP1(header *fasthttp.RequestHeader) bool {
	return header.IsHTTP11() || string(header.Protocol()) == "HTTP/1.0"
}

// refuse answers a request that breaks the protocol, and ends the connection.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, c *conn, status int) {
	s.sendError(ctx, c, status)
	ctx.SetConnectionClose()
}

// refuseBroken answers bytes that fasthttp could not read as a GET or HEAD request, and
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
	s.refuse(ctx, connOf(ctx), status)
}

// refuseExpectation answers a client that waits for 100 Continue before it sends a body.
// No request here has a body, and proxies lose count over an interim answer.
func (s *Server) refuseExpectation(ctx *fasthttp.RequestCtx) int {
	s.refuse(ctx, connOf(ctx), fasthttp.StatusBadRequest)
	return fasthttp.StatusBadRequest
}
