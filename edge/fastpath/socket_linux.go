//go:build linux && (amd64 || arm64)

package fastpath

import (
	"io"
	"net"
	"os"
	"syscall"
)

// Socket reads and writes a plain TCP connection with one system call for a request and
// one for its answer.
//
// A net.Conn needs a third call before it waits for the next request: a read that finds
// nothing, because net.Conn forgets the poller's last notification. Here all requests
// are answered within one RawConn.Read, which remembers: bytes that arrive after a read
// that has not filled its buffer wake the next wait.
//
// The zero value is closed. A Socket belongs to the goroutine that reads the connection.
type Socket struct {
	handler Handler
	raw     syscall.RawConn
	serve   func(fd uintptr) bool // serveReady as a value, so that it is allocated once
	reused  bool                  // a request was answered here before

	// Of the RawConn.Read in progress:
	fd  uintptr
	buf []byte
	n   int
	err error
}

// Open makes s read from c if c is a TCP connection.
func (s *Socket) Open(c net.Conn, h Handler) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		s.handler, s.raw, s.serve = h, raw, s.serveReady
	}
}

// IsOpen reports whether Open has succeeded.
func (s *Socket) IsOpen() bool { return s.raw != nil }

// Read answers requests until it reads one that the handler declines, and returns that
// one's bytes in p.
func (s *Socket) Read(p []byte) (int, error) {
	s.buf, s.n, s.err = p, 0, nil
	err := s.raw.Read(s.serve)
	s.buf = nil
	if err != nil {
		return 0, err // a deadline, or the connection is closed
	}
	return s.n, s.err
}

// serveReady answers the requests that have arrived. It reports false when it has to
// wait for more.
func (s *Socket) serveReady(fd uintptr) (done bool) {
	s.fd = fd
	for {
		n, errno := receive(fd, s.buf)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			s.err = os.NewSyscallError("read", errno)
			return true
		case n == 0:
			s.err = io.EOF
			return true
		}
		answered, err := s.handler.Answer(s, s.buf[:n])
		if err == nil && answered {
			err = s.handler.ArmRead()
		}
		switch {
		case err != nil:
			s.err = net.ErrClosed // the client is gone, and so is the reader of an error
			return true
		case !answered:
			s.n = n
			return true
		}
		// A client that sends a single request may end the connection in the same
		// segment, which only another read finds. A client that does so with a later
		// request keeps its connection until the idle timeout.
		first := !s.reused
		s.reused = true
		if n < len(s.buf) && !first {
			return false
		}
	}
}

// Write writes an answer. It may be called from Handler.Answer only.
func (s *Socket) Write(p []byte) (int, error) {
	n := send(s.fd, p)
	if n == len(p) {
		return n, nil
	}
	more, err := s.handler.WriteSlowly(p[n:])
	return n + more, err
}
