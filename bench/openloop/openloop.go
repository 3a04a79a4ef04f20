//go:build linux

// Package openloop sends HTTP requests at fixed times, regardless of the answers, and
// measures from the time at which a request was due. A server that stalls is charged with
// all requests that come while it stalls, and not only with one for each connection, as
// by a client in a closed loop (coordinated omission).
//
// It sends one request at a time on a connection, after one that is not counted; when all
// connections are busy, requests wait their turn with their clock running. One thread
// does all the work and never sleeps, because timers are coarser than the measured times;
// it needs a processor of its own.
package openloop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Config is one run.
type Config struct {
	Addr        string  // IPv4 address and port
	Rate        float64 // requests per second, evenly spaced
	Connections int     // 1 to 4096
	Duration    time.Duration
	Drain       time.Duration                  // how long to wait for the last answers
	Request     func(dst []byte, n int) []byte // appends request number n
	Status      int                            // that every answer must have
}

// maxRequests bounds the requests that a run keeps in memory.
const maxRequests = 50_000_000

// Run makes one run. An answer that is wrong, or does not come, is an error.
func Run(ctx context.Context, c Config) (*Result, error) {
	total := int(c.Rate * c.Duration.Seconds())
	if total < 1 || total > maxRequests || c.Connections < 1 || c.Connections > 4096 {
		return nil, fmt.Errorf("a run of %d requests over %d connections", total, c.Connections)
	}
	l, err := newLoop(c)
	if err != nil {
		return nil, err
	}
	l.waits = make([]time.Duration, 0, total)
	// No garbage is collected during a run, because a pause of the client would look like
	// one of the server.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err = l.greet(ctx); err == nil {
		err = l.run(ctx, total)
	}
	return &Result{Waits: l.waits, Took: time.Since(l.start)}, errors.Join(err, l.close())
}

// Result holds the durations of a run's requests, from when each was due to its answer.
type Result struct {
	Waits []time.Duration
	Took  time.Duration // from the start to the last answer
}

// conn is a connection with its current request.
type conn struct {
	fd      int
	due     time.Duration
	request []byte
	answer  [16 << 10]byte
	filled  int
}

// loop is the state of a run. One thread owns it.
type loop struct {
	cfg   Config
	epoll int
	conns map[int32]*conn
	idle  []*conn // the one that was used last is used next
	start time.Time
	sent  int
	waits []time.Duration
}

func newLoop(c Config) (_ *loop, err error) {
	addr, err := netip.ParseAddrPort(c.Addr)
	if err != nil || !addr.Addr().Is4() {
		return nil, fmt.Errorf("%q is no IPv4 address with a port", c.Addr)
	}
	l := &loop{cfg: c, conns: make(map[int32]*conn, c.Connections)}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make an epoll: %w", err)
	}
	for range c.Connections {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			k := &conn{fd: fd}
			l.conns[int32(fd)], l.idle = k, append(l.idle, k)
			err = errors.Join(
				unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}),
				unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1), unix.SetNonblock(fd, true),
				unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect to %s: %w", addr, err), l.close())
		}
	}
	return l, nil
}

func (l *loop) close() error {
	err := unix.Close(l.epoll)
	for _, k := range l.conns {
		err = errors.Join(err, unix.Close(k.fd))
	}
	return err
}

// greet sends one request on each connection, one after the other, that is not counted,
// so that the server's work for a new connection is over before the first counted one.
func (l *loop) greet(ctx context.Context) error {
	for _, k := range l.conns {
		if err := l.write(k, 0); err != nil {
			return err
		}
		for end := time.Now().Add(l.cfg.Drain); ; {
			whole, err := k.read(l.cfg.Status)
			if err != nil {
				return err
			}
			if whole {
				break
			}
			if ctx.Err() != nil || time.Now().After(end) {
				return fmt.Errorf("the first answer on a connection has not come: %w", ctx.Err())
			}
		}
	}
	return nil
}

func (l *loop) run(ctx context.Context, total int) error {
	every := 1e9 / l.cfg.Rate
	due := func(n int) time.Duration { return time.Duration(float64(n) * every) }
	events := make([]unix.EpollEvent, 256)
	l.start = time.Now()
	for end := due(total) + l.cfg.Drain; len(l.waits) < total; {
		now := time.Since(l.start)
		if ctx.Err() != nil || now > end {
			return fmt.Errorf("%d of %d answers have not come: %w", total-len(l.waits), total, ctx.Err())
		}
		for l.sent < total && len(l.idle) > 0 && due(l.sent) <= time.Since(l.start) {
			k := l.idle[len(l.idle)-1]
			l.idle = l.idle[:len(l.idle)-1]
			k.due = due(l.sent)
			if err := l.write(k, l.sent); err != nil {
				return err
			}
			l.sent++
		}
		n, err := unix.EpollWait(l.epoll, events, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for answers: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			k := l.conns[e.Fd]
			whole, err := k.read(l.cfg.Status)
			if err != nil {
				return err
			}
			if whole {
				l.waits = append(l.waits, time.Since(l.start)-k.due)
				l.idle = append(l.idle, k)
			}
		}
	}
	return nil
}

// write sends request number n.
func (l *loop) write(k *conn, n int) error {
	k.request = l.cfg.Request(k.request[:0], n)
	if sent, err := unix.Write(k.fd, k.request); err != nil || sent != len(k.request) {
		return fmt.Errorf("send request %d: %d of %d bytes: %w", n, sent, len(k.request), err)
	}
	return nil
}

// read reads the bytes that have arrived, and reports whether the answer is whole.
func (k *conn) read(status int) (whole bool, err error) {
	n, err := unix.Read(k.fd, k.answer[k.filled:])
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read an answer: %w", err)
	case n == 0:
		return false, errors.New("the server closed a connection")
	}
	k.filled += n
	length, err := answerLength(k.answer[:k.filled], status)
	switch {
	case err != nil:
		return false, err
	case length > len(k.answer), length != 0 && length < k.filled, length == 0 && k.filled == len(k.answer):
		return false, fmt.Errorf("an answer of %d bytes, where %d have come", length, k.filled)
	case length != k.filled:
		return false, nil
	}
	k.filled = 0
	return true, nil
}

var (
	headEnd    = []byte("\r\n\r\n")
	lineEnd    = []byte("\r\n")
	version    = []byte("HTTP/1.1 ")
	lengthName = []byte("\r\nContent-Length: ")
)

// answerLength returns the length of the answer at the start of b, 0 as long as its head
// is not complete.
func answerLength(b []byte, status int) (int, error) {
	head, _, complete := bytes.Cut(b, headEnd)
	if !complete {
		return 0, nil
	}
	rest, is := bytes.CutPrefix(head, version)
	if got, _, _ := bytes.Cut(rest, []byte(" ")); !is || string(got) != strconv.Itoa(status) {
		return 0, fmt.Errorf("the answer begins with %.40q, and not with status %d", head, status)
	}
	_, value, _ := bytes.Cut(head, lengthName)
	value, _, _ = bytes.Cut(value, lineEnd)
	n, err := strconv.ParseUint(string(value), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("the length of an answer: %w", err)
	}
	return len(head) + len(headEnd) + int(n), nil
}
