package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"waypost/edge/fastpath"
)

// conn is the state of one client connection. Its requests come one after the other, so
// that the goroutine that reads the connection owns all fields without a comment.
type conn struct {
	server   *Server
	stripe   *stripe
	requests uint64 // the connection's number, and 1 more after each request; see isTimed

	raw    net.Conn        // below TLS and the PROXY header
	socket fastpath.Socket // raw, when there is neither
	lines  lineGuard

	peer    netip.Addr // the other end, or the address that the PROXY header names
	trusted bool       // peer is a trusted proxy
	secure  bool       // it speaks TLS

	// Buffers of the request in progress. Grown ones are kept for the next request.
	text      []byte // a header value
	out       []byte // an answer of the fast path
	host      [maxHost]byte
	forwarded [1][]byte // X-Forwarded-For
	sealed    [16]byte  // the visitor's address
	utm       []byte    // of the request; nil until a domain counts it
	finder    Finder

	fast             bool // the fast path has answered on this connection
	reading, writing deadline
	slack            time.Duration // see deadline
	failed           error         // nothing more is read or written; set by a handshake

	phase atomic.Uint32 // see phase.go
	ends  sync.Mutex    // held while phase and the deadline change together

	registry *registry
	entry    registryEntry // owned by the registry's lock
}

// maxKept bounds the buffers that an idle connection keeps, in bytes. Most connections
// are idle most of the time.
const maxKept = 4 << 10

func keep(buf *[]byte, grown []byte) {
	if cap(grown) <= maxKept {
		*buf = grown
	}
}

func (c *conn) self() *conn { return c }

func connOf(ctx *fasthttp.RequestCtx) *conn {
	return ctx.Conn().(interface{ self() *conn }).self()
}

// plainConn and tlsConn are a connection together with its state. fasthttp has to see
// that a TLS connection is one: it must not write to it before the handshake.
type (
	plainConn struct {
		net.Conn
		conn
	}
	tlsConn struct {
		*tls.Conn
		conn
	}
)

func (c *plainConn) Read(p []byte) (int, error) { return c.read(c.Conn, c, p) }
func (c *tlsConn) Read(p []byte) (int, error)   { return c.read(c.Conn, c, p) }

func (c *plainConn) Write(p []byte) (int, error) { return c.write(c.Conn, p) }
func (c *tlsConn) Write(p []byte) (int, error)   { return c.write(c.Conn, p) }

func (c *plainConn) SetDeadline(t time.Time) error      { return c.want(t, t) }
func (c *plainConn) SetReadDeadline(t time.Time) error  { return c.want(t, c.writing.wanted) }
func (c *plainConn) SetWriteDeadline(t time.Time) error { return c.want(c.reading.wanted, t) }
func (c *tlsConn) SetDeadline(t time.Time) error        { return c.want(t, t) }
func (c *tlsConn) SetReadDeadline(t time.Time) error    { return c.want(t, c.writing.wanted) }
func (c *tlsConn) SetWriteDeadline(t time.Time) error   { return c.want(c.reading.wanted, t) }

func (c *plainConn) Close() error { c.registry.remove(&c.conn); return c.Conn.Close() }
func (c *tlsConn) Close() error   { c.registry.remove(&c.conn); return c.Conn.Close() }

// Handshake closes the connection if the handshake fails, because fasthttp would go on
// with it. It also closes a connection that exists only for the handshake: a proof for a
// certificate authority (TLS-ALPN-01, RFC 8737).
func (c *tlsConn) Handshake() error {
	err := errors.Join(c.ArmRead(), c.armWrite())
	if err == nil {
		err = c.Conn.Handshake()
	}
	if err == nil && c.Conn.ConnectionState().NegotiatedProtocol != acmeProtocol {
		// In TLS 1.2 the client may send its request only after another round trip.
		if c.Conn.ConnectionState().Version >= tls.VersionTLS13 {
			c.registry.endHandshake(&c.conn)
		}
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) { // a client that leaves is not refused
		c.registry.metrics.refused[refusedHandshake].Add(1)
	}
	c.failed = net.ErrClosed
	return errors.Join(err, c.raw.Close())
}

const acmeProtocol = "acme-tls/1"

// read returns the bytes that fasthttp is to answer. Between requests the fast path may
// answer an arriving request itself, and read goes on.
func (c *conn) read(from net.Conn, to io.Writer, p []byte) (int, error) {
	for {
		if err := c.ArmRead(); err != nil {
			return 0, err
		}
		between, tried := c.lines.betweenRequests(), false
		var n int
		var err error
		if between && c.socket.IsOpen() {
			n, err = c.socket.Read(p)
			tried = true
		} else {
			n, err = from.Read(p)
		}
		if n == 0 && err != nil && c.phase.Load() == phaseEnding {
			n, err = c.readOnceMore(from, p)
			tried = false
		}
		if !between {
			return c.lines.check(p, n, err)
		}
		if err == nil && !tried {
			answered, failed := c.answerFast(to, p[:n])
			if failed != nil {
				return 0, net.ErrClosed // the client is gone
			}
			if answered {
				continue
			}
		}
		if c.fast {
			if n == 0 && err != nil {
				return 0, io.EOF // fasthttp must not think that it still owes an answer
			}
			if c.phase.Load() != phaseBusy { // empty lines before a request postpone nothing
				c.reading.wanted = time.Now().Add(c.server.cfg.ReadTimeout) // fasthttp does the same after its first request
			}
		}
		return c.lines.check(p, n, err)
	}
}

func (c *conn) write(to net.Conn, p []byte) (int, error) {
	if err := c.armWrite(); err != nil {
		return 0, err
	}
	return to.Write(p)
}

// Answer, ArmRead and WriteSlowly implement fastpath.Handler.
func (c *conn) Answer(s *fastpath.Socket, b []byte) (bool, error) { return c.answerFast(s, b) }

func (c *conn) WriteSlowly(p []byte) (int, error) { return c.write(c.raw, p) }
