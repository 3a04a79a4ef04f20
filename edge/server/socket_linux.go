//go:build linux && (amd64 || arm64)

package server

import (
	"io"
	"net"
	"os"
	"syscall"
)

// socket is a plain TCP connection as the express lane reads and writes it: with one
// system call for a request and one for its answer.
//
// net.Conn comes to wait for the next request only by a third one, a read that finds
// nothing. That read is needed because net.Conn forgets what the poller has told it
// before. Here all requests are answered within one RawConn.Read, which does not: what
// arrives after a read that has not filled its buffer wakes the next wait.
type socket struct {
	visitor *visitor
	conn    *net.TCPConn // nil: not such a connection
	raw     syscall.RawConn
	serve   func(fd uintptr) bool // turn, made a func once

	// Of the RawConn.Read under way:
	fd  uintptr
	buf []byte
	n   int
	err error
}

// open makes c the socket of a connection, if it is one.
func (s *socket) open(v *visitor, c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		s.visitor, s.conn, s.raw, s.serve = v, tcp, raw, s.turn
	}
}

func (s *socket) isOpen() bool { return s.conn != nil }

// read answers requests as long as they are for the express lane, and gives what is not.
func (s *socket) read(p []byte) (int, error) {
	s.buf, s.n, s.err = p, 0, nil
	err := s.raw.Read(s.serve)
	s.buf = nil
	if err != nil {
		return 0, err // a deadline, or the end
	}
	return s.n, s.err
}

// turn answers what there is, and is false when it has to wait for more.
func (s *socket) turn(fd uintptr) (done bool) {
	v := s.visitor
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
		first := !v.expressed
		answered, err := v.server.express(v, s, s.buf[:n])
		if err == nil && answered {
			err = v.armReading()
		}
		switch {
		case err != nil:
			s.err = net.ErrClosed // nobody is there to be told
			return true
		case !answered:
			s.n = n
			return true
		}
		// Whoever sends a single request may have ended it with the connection, in one
		// segment: that is found by reading on. Should one do so with a later request,
		// the connection stays until it was idle for too long.
		if n < len(s.buf) && !first {
			return false
		}
	}
}

// Write is for answers within a turn. What the kernel has no room for goes the way of
// all others, which waits.
func (s *socket) Write(p []byte) (int, error) {
	n := send(s.fd, p)
	if n == len(p) {
		return n, nil
	}
	more, err := s.visitor.write(s.conn, p[n:])
	return n + more, err
}
