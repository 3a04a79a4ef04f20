package server

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"waypost/edge/proxy"
	listeners "waypost/internal/listener"
)

// listener admits connections. It outlives moments without file descriptors or memory,
// at which fasthttp would give up.
type listener struct {
	net.Listener
	server *Server
	tls    *tls.Config  // nil: plain TCP
	close  func() error // runs once
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

// Accept returns the next connection that no limit refuses.
func (l *listener) Accept() (net.Conn, error) {
	const pause = 20 * time.Millisecond
	for {
		accepted, err := l.Listener.Accept()
		if err == nil {
			if admitted := l.admit(accepted); admitted != nil {
				return admitted, nil
			}
			continue
		}
		if !isTemporary(err) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-l.done:
			return nil, net.ErrClosed
		}
	}
}

// admit wraps an accepted connection, or refuses it and returns nil.
func (l *listener) admit(accepted net.Conn) net.Conn {
	s := l.server
	peer := proxy.Peer(accepted.RemoteAddr())
	trusted := s.trusted.Has(peer)
	below := accepted
	var proxied *proxyConn
	if trusted && s.cfg.ProxyProtocol {
		proxied = &proxyConn{Conn: accepted}
		below = proxied
	}
	var c *conn
	var admitted net.Conn
	if l.tls != nil {
		w := &tlsConn{Conn: tls.Server(below, l.tls)}
		c, admitted = &w.conn, w
		c.secure = true
		c.phase.Store(phaseHandshake)
	} else {
		w := &plainConn{Conn: below}
		c, admitted = &w.conn, w
	}
	c.server, c.registry, c.raw, c.peer, c.trusted = s, s.registry, accepted, peer, trusted
	c.stripe, c.requests = s.metrics.nextStripe()
	c.slack = slackOf(s.cfg.ReadTimeout, s.cfg.WriteTimeout, s.cfg.IdleTimeout)
	switch {
	case proxied != nil:
		proxied.conn, proxied.proxies = c, s.trusted
	case l.tls == nil:
		c.socket.Open(accepted, c)
	}
	if !s.registry.addConn(c) {
		listeners.Refuse(accepted)
		return nil
	}
	return admitted
}

func (l *listener) Close() error { return l.close() }

// isTemporary reports whether accepting may succeed again without a change.
func isTemporary(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
