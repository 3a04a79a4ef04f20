package edge

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// visitor is what answering needs of a connection. Requests of one connection come
// one after the other, so that it needs no lock and no pool.
type visitor struct {
	stripe *stripe
	record []byte // where Links.Link puts what it finds
	text   []byte // a header value that is being made
	host   [maxHost]byte
	lines  lineGuard
	open   *atomic.Int64
	closed atomic.Bool
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

// enter counts the connection in.
func (v *visitor) enter(m *metrics) {
	v.stripe, v.open = m.nextStripe(), &m.open
	v.open.Add(1)
}

// leave counts the connection out, once.
func (v *visitor) leave() {
	if v.closed.CompareAndSwap(false, true) {
		v.open.Add(-1)
	}
}

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

func (c *plainConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return c.lines.check(p, n, err)
}

func (c *tlsConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return c.lines.check(p, n, err)
}

func (c *plainConn) Close() error { c.leave(); return c.Conn.Close() }
func (c *tlsConn) Close() error   { c.leave(); return c.Conn.Close() }

// listener gives every connection its visitor, and outlives a moment without file
// descriptors or memory, at which fasthttp would give up.
type listener struct {
	net.Listener
	metrics *metrics
	close   func() error // once
	done    chan struct{}
}

func newListener(ln net.Listener, m *metrics) *listener {
	l := &listener{Listener: ln, metrics: m, done: make(chan struct{})}
	l.close = sync.OnceValue(func() error {
		close(l.done)
		return ln.Close()
	})
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	const pause = 20 * time.Millisecond
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			return l.wrap(c), nil
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

func (l *listener) wrap(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		w := &tlsConn{Conn: t}
		w.enter(l.metrics)
		return w
	}
	w := &plainConn{Conn: c}
	w.enter(l.metrics)
	return w
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
