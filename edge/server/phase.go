package server

import (
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// The phases of a connection. Only one that waits is ended from outside; all others
// end by themselves after their answer, which tells the client to close.
const (
	phaseWaiting uint32 = iota // for the first byte of a request, or for a handshake
	phaseBusy                  // with a request
	phaseEnding                // told to end while it waited
)

// past is a deadline that is over.
var past = time.Unix(1, 0)

// follow is fasthttp's hook: it notes when a request begins and when it is answered.
func (s *Server) follow(c net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateActive:
		c.(interface{ self() *visitor }).self().begin(s.cfg.ReadTimeout)
	case fasthttp.StateIdle:
		c.(interface{ self() *visitor }).self().rest()
	}
}

// begin notes the first byte of a request. Should the connection have been told to
// end just before, the request is answered all the same, and has its whole time.
func (v *visitor) begin(readTimeout time.Duration) {
	if v.phase.CompareAndSwap(phaseWaiting, phaseBusy) {
		return
	}
	v.ends.Lock()
	defer v.ends.Unlock()
	if v.phase.Swap(phaseBusy) == phaseEnding {
		v.reading.wanted = time.Now().Add(readTimeout)
		v.reading.armed = past // the next read arms it
	}
}

// rest notes that a request is answered.
func (v *visitor) rest() {
	v.phase.Store(phaseWaiting)
	if v.roster.ending.Load() {
		v.end()
	}
}

// end ends the connection if it waits, and leaves one that is busy alone.
func (v *visitor) end() {
	v.ends.Lock()
	defer v.ends.Unlock()
	if v.phase.CompareAndSwap(phaseWaiting, phaseEnding) {
		_ = v.raw.SetReadDeadline(past) // an error means that it has ended
	}
}

// lookOnceMore is for a connection that was told to end: a request that has come
// meanwhile is still taken. Otherwise the connection ends without a word.
func (v *visitor) lookOnceMore(from net.Conn, p []byte) (int, error) {
	const wait, tries, enough = time.Millisecond, 6, 2
	v.reading.armed = past
	looks := 0
	for range tries {
		until := time.Now().Add(wait)
		if err := v.raw.SetReadDeadline(until); err != nil {
			break
		}
		if n, err := from.Read(p); n > 0 {
			return n, err
		}
		// Whoever is held up between the two finds the time over, and has not looked. That is told from a look by
		// how late it is, unless it was held up just as long as a look takes: hardly twice.
		if time.Since(until) < wait {
			if looks++; looks == enough {
				break
			}
		}
	}
	return 0, net.ErrClosed
}
