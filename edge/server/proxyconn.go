package server

import (
	"bufio"
	"errors"
	"net"

	"github.com/pires/go-proxyproto"

	"waypost/edge/proxy"
)

// errHeader ends a connection without an answer, because a proxy that sends no PROXY
// header where one is required would not understand it.
var errHeader = errors.Join(errors.New("no PROXY header"), net.ErrClosed)

// errTooMany ends a connection if its PROXY header names an address above its limit.
var errTooMany = errors.Join(errors.New("too many connections of one address"), net.ErrClosed)

// proxyConn removes the PROXY header from the stream of a trusted proxy. It does so at
// the first read and within its deadline, and lets no byte through before.
type proxyConn struct {
	net.Conn
	conn    *conn
	proxies proxy.Trusted
	ahead   *bufio.Reader // holds bytes behind the header
	known   bool
	failed  error
}

func (c *proxyConn) Read(p []byte) (int, error) {
	if !c.known {
		c.known, c.failed = true, c.readHeader()
	}
	if c.failed != nil {
		return 0, c.failed
	}
	if c.ahead.Buffered() == 0 {
		return c.Conn.Read(p)
	}
	return c.ahead.Read(p)
}

// readHeader reads the header, of at most 4 KiB, and keeps the address that it names.
func (c *proxyConn) readHeader() error {
	const most = 536 // bytes of a header of version 2 without long values
	c.ahead = bufio.NewReaderSize(c.Conn, most)
	if _, err := c.ahead.Peek(1); err != nil {
		return net.ErrClosed // it closed, or sent nothing in time
	}
	header, err := proxyproto.Read(c.ahead)
	if err != nil {
		c.conn.registry.metrics.refused[refusedHeader].Add(1)
		return errHeader
	}
	source := proxy.Peer(header.SourceAddr)
	if header.Command.IsLocal() || !source.IsValid() {
		return nil // a health check of the proxy itself
	}
	c.conn.peer, c.conn.trusted = source, c.proxies.Has(source)
	if !c.conn.registry.recount(c.conn) {
		return errTooMany
	}
	return nil
}
