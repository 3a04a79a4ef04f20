package server

import (
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// The phases of a connection. Shutdown ends only connections that wait. A busy one ends
// after its answer, which asks the client to close.
const (
	phaseNew       uint32 = iota // waits for the first byte of its first request
	phaseHandshake               // has a TLS handshake before it, which takes round trips
	phaseWaiting                 // waits for the first byte of its next request
	phaseBusy                    // with a request
	phaseEnding                  // told to end while it waited
)

// past is a deadline that has expired.
var past = time.Unix(1, 0)

// follow is fasthttp's hook for the beginning and the end of a request.
func (s *Server) follow(nc net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateActive:
		nc.(interface{ self() *conn }).self().beginRequest(s.cfg.ReadTimeout)
	case fasthttp.StateIdle:
		nc.(interface{ self() *conn }).self().rest()
	}
}

// beginRequest notes the first byte of a request. If the connection was told to end just
// before, the request is still answered, and has its whole time.
func (c *conn) beginRequest(readTimeout time.Duration) {
	if c.takeUp() {
		return
	}
	c.ends.Lock()
	defer c.ends.Unlock()
	if c.phase.Swap(phaseBusy) == phaseEnding {
		c.reading.wanted = time.Now().Add(readTimeout)
		c.reading.armed = past // the next read arms it
	}
}

// takeUp makes a connection that waits busy, and reports false if it does not wait.
func (c *conn) takeUp() bool {
	return c.phase.CompareAndSwap(phaseWaiting, phaseBusy) || c.phase.CompareAndSwap(phaseNew, phaseBusy) ||
		c.phase.CompareAndSwap(phaseHandshake, phaseBusy)
}

// rest notes that a request is answered.
func (c *conn) rest() {
	c.finder.rest()
	c.phase.Store(phaseWaiting)
	if c.registry.ending.Load() {
		c.endIdle(phaseWaiting)
	}
}

// endIdle ends the connection if it is in a phase in which it waits.
func (c *conn) endIdle(phase uint32) {
	c.ends.Lock()
	defer c.ends.Unlock()
	if c.phase.CompareAndSwap(phase, phaseEnding) {
		_ = c.raw.SetReadDeadline(past) // an error means that it has ended
	}
}

// readOnceMore takes a request that has arrived on a connection that was told to end.
// Without one the connection ends.
func (c *conn) readOnceMore(from net.Conn, p []byte) (int, error) {
	const wait, tries, enough = time.Millisecond, 6, 2
	c.reading.armed = past
	looks := 0
	for range tries {
		until := time.Now().Add(wait)
		if err := c.raw.SetReadDeadline(until); err != nil {
			break
		}
		if n, err := from.Read(p); n > 0 {
			return n, err
		}
		// A goroutine that is held up between the two calls finds the deadline expired
		// and has not looked. A late return shows that. To be held up for exactly as
		// long as a look takes is unlikely once, and negligible twice.
		if time.Since(until) < wait {
			if looks++; looks == enough {
				break
			}
		}
	}
	return 0, net.ErrClosed
}
