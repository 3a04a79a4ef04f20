package server

import (
	"net/netip"
	"time"
)

// OriginOf lets tests cut a referrer without a server.
func OriginOf(referrer []byte) []byte { return originOf(referrer) }

// Recorder gives what notes a click of a request that came through a trusted proxy, if
// that says for whom.
func Recorder(clicks Clicks, sealer Sealer, agent, referrer, forwardedFor string) func() {
	s := New(Config{Clicks: clicks, Sealer: sealer, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	v := &visitor{peer: netip.MustParseAddr("10.0.0.1"), trusted: forwardedFor != ""}
	a, r, f, code := []byte(agent), []byte(referrer), []byte(forwardedFor), []byte("abc1234")
	return func() { s.record(v, 1, code, a, r, s.forwardedClient(v, f), s.clickTime(time.Now())) }
}
