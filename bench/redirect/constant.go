//go:build linux

package main

import (
	"context"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// constantTarget has the length that targets have on average.
const constantTarget = "https://www.example.org/articles/2026/a-title-of-the-usual-length/1satl?utm_source=newsletter"

// fastServer is fasthttp with the settings of the edge server, so that the difference is
// the work of Waypost.
type fastServer struct{ http *fasthttp.Server }

func newFastServer(handler fasthttp.RequestHandler) fastServer {
	return fastServer{&fasthttp.Server{
		Handler:               handler,
		ReadTimeout:           5 * time.Second,
		WriteTimeout:          10 * time.Second,
		IdleTimeout:           time.Minute,
		Concurrency:           32 << 10,
		GetOnly:               true,
		ReadBufferSize:        16 << 10,
		LazyRequestTime:       true,
		CloseOnShutdown:       true,
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,
	}}
}

func (s fastServer) Serve(ln net.Listener) error { return s.http.Serve(ln) }

func (s fastServer) Shutdown(ctx context.Context) error { return s.http.ShutdownWithContext(ctx) }

var (
	headerLocation     = []byte("Location")
	headerCacheControl = []byte("Cache-Control")
	noStore            = []byte("private, no-store")
)

func sendFound(ctx *fasthttp.RequestCtx, target []byte) {
	ctx.Response.SetStatusCode(fasthttp.StatusFound)
	ctx.Response.Header.SetCanonical(headerLocation, target)
	ctx.Response.Header.SetCanonical(headerCacheControl, noStore)
}

// newBareServer answers every request with the same redirect.
func newBareServer() fastServer {
	target := []byte(constantTarget)
	return newFastServer(func(ctx *fasthttp.RequestCtx) { sendFound(ctx, target) })
}

// newEndlessServer has no timeouts, which no server can afford on the internet: each
// timeout costs a request about as much as finding the link does.
func newEndlessServer() fastServer {
	s := newBareServer()
	s.http.ReadTimeout, s.http.WriteTimeout, s.http.IdleTimeout = 0, 0, 0
	return s
}
