package server

import (
	"errors"
	"net"

	"waypost/edge/proxy"
)

// errHeader ends a connection without an answer: whoever sends no PROXY header where
// one has to be would not know what to make of it.
var errHeader = errors.Join(proxy.ErrHeader, net.ErrClosed)

// errTooMany ends a connection whose PROXY header names an address that has too many.
var errTooMany = errors.Join(errors.New("too many connections of one address"), net.ErrClosed)

// headedConn takes the PROXY header off what a trusted proxy sends. It does so at
// the first read and within its deadline, and lets nothing through before.
type headedConn struct {
	net.Conn
	visitor *visitor
	proxies proxy.Trusted
	read    []byte // what has come; the rest of it once the header is known
	known   bool
	failed  error
}

func (c *headedConn) Read(p []byte) (int, error) {
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

// readHeader reads until the header is complete, and notes whom it names.
func (c *headedConn) readHeader() error {
	const most = 536 // what a header of version 2 without long values has
	chunk := make([]byte, most)
	for {
		n, err := c.Conn.Read(chunk)
		c.read = append(c.read, chunk[:n]...)
		source, length, bad := proxy.ParseHeader(c.read)
		switch {
		case bad == nil:
			c.known, c.read = true, c.read[length:]
			if !source.IsValid() {
				return nil // the proxy's own connection, to see whether somebody is there
			}
			c.visitor.peer, c.visitor.trusted = source, c.proxies.Has(source)
			if !c.visitor.roster.recount(c.visitor) {
				return errTooMany
			}
			return nil
		case errors.Is(bad, proxy.ErrShort) && err == nil:
		case len(c.read) == 0:
			return net.ErrClosed // it came and went, or said nothing in time
		default:
			c.visitor.roster.metrics.refused[refusedHeader].Add(1)
			return errHeader
		}
	}
}
