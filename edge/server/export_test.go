package server

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// WithoutExpress makes fasthttp answer every request; before Serve.
func WithoutExpress(s *Server) { s.plain = true }

// WatchBegin tells when the first byte of a request has come; before Serve.
func WatchBegin(s *Server, tell func()) {
	s.plain = true
	s.http.ConnState = func(c net.Conn, state fasthttp.ConnState) {
		s.follow(c, state)
		if state == fasthttp.StateActive {
			tell()
		}
	}
}

// EndAll ends the connections that wait, as Shutdown does after its DrainTime.
func EndAll(s *Server) { s.roster.end() }

// FindingClient gives what finds a visitor's address.
func FindingClient(forwardedFor string) func() {
	s := New(Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	v := &visitor{peer: netip.MustParseAddr("10.0.0.1"), trusted: true}
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.Set("X-Forwarded-For", forwardedFor)
	return func() { s.clientOf(&ctx, v) }
}

// Answer gives what the server answers to a connection that sends these bytes, in
// reads of so many (0: as many as fit), and ends.
func Answer(t *testing.T, s *Server, sent []byte, cut int) []byte {
	t.Helper()
	c := &bytesConn{sent: sent, cut: cut}
	admitted := newListener(nil, s, nil).admit(c)
	_ = s.http.ServeConn(admitted) // its error is what it has answered
	_ = admitted.Close()
	return c.answers.Bytes()
}

// bytesConn is a connection without a network.
type bytesConn struct {
	sent    []byte
	cut     int
	answers bytes.Buffer
}

func (c *bytesConn) Read(p []byte) (int, error) {
	if len(c.sent) == 0 {
		return 0, io.EOF
	}
	if c.cut > 0 && len(p) > c.cut {
		p = p[:c.cut]
	}
	n := copy(p, c.sent)
	c.sent = c.sent[n:]
	return n, nil
}

func (c *bytesConn) Write(p []byte) (int, error)      { return c.answers.Write(p) }
func (c *bytesConn) Close() error                     { return nil }
func (c *bytesConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *bytesConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *bytesConn) SetDeadline(time.Time) error      { return nil }
func (c *bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }

// GuardLines looks at one read of a connection that keeps on.
func GuardLines(b []byte) func() bool {
	var g lineGuard
	return func() bool { return g.fault(b) < 0 }
}
