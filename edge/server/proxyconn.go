package server

import (
	"errors"
	"net"

	"waypost/edge/proxy"
)

// errHeader ends a connection without an answer, because a proxy that sends no PROXY
// header where one is required would not understand it.
var errHeader = errors.Join(proxy.ErrHeader, net.ErrClosed)

// errTooMany ends a connection if its PROXY header names an address above its limit.
var errTooMany = errors.Join(errors.New("too many connections of one address"), net.ErrClosed)

// proxyConn removes the PROXY header from the stream of a trusted proxy. It does so at
// the first read and within its deadline, and lets no byte through before.
type proxyConn struct {
	net.Conn
	conn    *conn
	proxies proxy.Trusted
	read    []byte // bytes read; once the header is known, the rest of them
	known   bool
	failed  error
}

func (c *proxyConn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	if !c.known {
		if c.failed = c.readHeader(); c.failed != nil {
			return 0, c.failed
		}
	}
	if len(c.read) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.read)
	if c.read = c.read[n:]; len(c.read) == 0 {
		c.read = nil
	}
	return n, nil
}

// readHeader reads until the header is complete, and keeps the address that it names.
func (c *proxyConn) readHeader() error {
	const most = 536 // bytes of a header of version 2 without long values
	chunk := make([]byte, most)
	for {
		n, err := c.Conn.Read(chunk)
		c.read = append(c.read, chunk[:n]...)
		source, length, bad := proxy.ParseHeader(c.read)
		switch {
		case bad == nil:
			c.known, c.read = true, c.read[length:]
			if !source.IsValid() {
				return nil // a health check of the proxy itself
			}
			c.conn.peer, c.conn.trusted = source, c.proxies.Has(source)
			if !c.conn.registry.recount(c.conn) {
				return errTooMany
			}
			return nil
		case errors.Is(bad, proxy.ErrShort) && err == nil:
		case len(c.read) == 0:
			return net.ErrClosed // it closed, or sent nothing in time
		default:
			c.conn.registry.metrics.refused[refusedHeader].Add(1)
			return errHeader
		}
	}
}
