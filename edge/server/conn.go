package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"waypost/edge/proxy"
)

// visitor is what answering needs of a connection. Requests of one connection come
// one after the other, so that most of it needs no lock and no pool.
type visitor struct {
	server    *Server
	stripe    *stripe
	record    []byte // where Links.Link puts what it finds
	text      []byte // a header value that is being made
	host      [maxHost]byte
	forwarded [1][]byte // X-Forwarded-For of the request under way
	sealed    [16]byte  // the address of the request under way, for its click
	lines     lineGuard
	peer      netip.Addr // who is at the other end, or whom the PROXY header names
	trusted   bool       // whether that is a trusted proxy

	out       []byte // an answer of the express lane
	expressed bool   // the lane has answered on this connection

	raw    net.Conn // below TLS and the PROXY header
	socket socket   // the same, when there is neither
	roster *roster
	place  place // in the roster, which owns it

	phase atomic.Uint32 // see phase.go
	ends  sync.Mutex

	reading, writing deadline
	slack            time.Duration // see deadline.go
	over             error         // nothing more is read or written
}

// keepRecord keeps a grown buffer for the next request, unless it is large: most
// connections are idle most of the time.
func (v *visitor) keepRecord(grown []byte) {
	const most = 4 << 10
	if cap(grown) <= most {
		v.record = grown
	}
}

func (v *visitor) self() *visitor { return v }

func visitorOf(ctx *fasthttp.RequestCtx) *visitor {
	return ctx.Conn().(interface{ self() *visitor }).self()
}

// plainConn and tlsConn are a connection with its visitor. fasthttp has to see that
// a TLS connection is one: it must not write to it before the handshake.
type (
	plainConn struct {
		net.Conn
		visitor
	}
	tlsConn struct {
		*tls.Conn
		visitor
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

func (c *plainConn) Close() error { c.roster.leave(&c.visitor); return c.Conn.Close() }
func (c *tlsConn) Close() error   { c.roster.leave(&c.visitor); return c.Conn.Close() }

// Handshake closes a connection whose handshake fails, because fasthttp would go on
// with it as with any other; and so it does one that is over with it, as that of a
// certificate authority that has come for its proof (RFC 8737).
func (c *tlsConn) Handshake() error {
	err := errors.Join(c.armReading(), c.armWriting())
	if err == nil {
		err = c.Conn.Handshake()
	}
	if err == nil && c.Conn.ConnectionState().NegotiatedProtocol != protocolOfProof {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) { // who leaves without a word is not refused
		c.roster.metrics.refused[refusedHandshake].Add(1)
	}
	c.over = net.ErrClosed
	return errors.Join(err, c.raw.Close())
}

const protocolOfProof = "acme-tls/1"

// read gives what fasthttp is to answer. It reads only when it waits for a request,
// or for the rest of one: in the first case the express lane may answer, and read on.
func (v *visitor) read(from net.Conn, to io.Writer, p []byte) (int, error) {
	for {
		if err := v.armReading(); err != nil {
			return 0, err
		}
		between, tried := v.lines.between(), false
		var n int
		var err error
		if between && v.socket.isOpen() {
			n, err = v.socket.read(p)
			tried = true
		} else {
			n, err = from.Read(p)
		}
		if n == 0 && err != nil && v.phase.Load() == phaseEnding {
			n, err = v.lookOnceMore(from, p)
			tried = false
		}
		if !between {
			return v.lines.check(p, n, err)
		}
		if err == nil && !tried {
			answered, failed := v.server.express(v, to, p[:n])
			if failed != nil {
				return 0, net.ErrClosed // nobody is there to be told
			}
			if answered {
				continue
			}
		}
		if v.expressed {
			if n == 0 && err != nil {
				return 0, io.EOF // it has been answered before: fasthttp must not think that it still owes an answer
			}
			if v.phase.Load() != phaseBusy { // empty lines before a request put nothing off
				v.reading.wanted = time.Now().Add(v.server.cfg.ReadTimeout) // as fasthttp does for all requests but the first
			}
		}
		return v.lines.check(p, n, err)
	}
}

// listener gives every connection its visitor, and outlives a moment without file
// descriptors or memory, at which fasthttp would give up.
type listener struct {
	net.Listener
	server *Server
	tls    *tls.Config  // nil: none
	close  func() error // once
	done   chan struct{}
}

func newListener(ln net.Listener, s *Server, cfg *tls.Config) *listener {
	l := &listener{Listener: ln, server: s, tls: cfg, done: make(chan struct{})}
	l.close = sync.OnceValue(func() error {
		close(l.done)
		return ln.Close()
	})
	return l
}

// Accept gives the next connection that no limit refuses.
func (l *listener) Accept() (net.Conn, error) {
	const pause = 20 * time.Millisecond
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			if admitted := l.admit(c); admitted != nil {
				return admitted, nil
			}
			continue
		}
		if !passes(err) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-l.done:
			return nil, net.ErrClosed
		}
	}
}

// admit makes a connection of ours out of what was accepted, or refuses it and
// gives nil.
func (l *listener) admit(c net.Conn) net.Conn {
	s := l.server
	peer := proxy.Peer(c.RemoteAddr())
	trusted := s.trusted.Has(peer)
	below := c
	var headed *headedConn
	if trusted && s.cfg.ProxyProtocol {
		headed = &headedConn{Conn: c}
		below = headed
	}
	var v *visitor
	var admitted net.Conn
	if l.tls != nil {
		w := &tlsConn{Conn: tls.Server(below, l.tls)}
		v, admitted = &w.visitor, w
	} else {
		w := &plainConn{Conn: below}
		v, admitted = &w.visitor, w
	}
	v.server, v.stripe, v.roster, v.raw, v.peer, v.trusted = s, s.metrics.nextStripe(), s.roster, c, peer, trusted
	v.slack = slackOf(s.cfg.ReadTimeout, s.cfg.WriteTimeout, s.cfg.IdleTimeout)
	switch {
	case headed != nil:
		headed.visitor, headed.proxies = v, s.trusted
	case l.tls == nil:
		v.socket.open(v, c)
	}
	if !s.roster.enter(v) {
		refuse(c)
		return nil
	}
	return admitted
}

// refuse ends a connection at the least cost: with a reset, which leaves nothing
// behind to wait for.
func refuse(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (l *listener) Close() error { return l.close() }

// passes reports whether accepting may succeed again by itself.
func passes(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
