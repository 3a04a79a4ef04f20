package certs_test

import (
	"testing"

	"go.uber.org/goleak"

	"waypost/internal/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		// Pebble's validation has no end.
		goleak.IgnoreAnyFunction("github.com/letsencrypt/pebble/v2/va.VAImpl.processTasks"),
		// Of certmagic's: each account's rate limit, locks, and connections to an authority
		// that are kept for the next order.
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.(*RingBufferRateLimiter).loop"),
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"), // sees within 5 s that its lock is gone
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	)
}
