//go:build linux

package openloop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// loop is the state of a run. One thread owns it.
type loop struct {
	cfg    Config
	epoll  int
	conns  []conn
	byFD   map[int32]*conn
	idle   []*conn // the one that was used last is used next
	result *Result

	start time.Time
	every float64 // nanoseconds between requests
	sent  int
	got   int
}

func newLoop(c Config) (_ *loop, err error) {
	addr, err := netip.ParseAddrPort(c.Addr)
	if err != nil || !addr.Addr().Is4() {
		return nil, fmt.Errorf("%q is no IPv4 address with a port", c.Addr)
	}
	l := &loop{cfg: c, every: 1e9 / c.Rate, byFD: make(map[int32]*conn, c.Connections), conns: make([]conn, 0, c.Connections)}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("making an epoll: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	for range c.Connections {
		fd, err := connect(addr)
		if err != nil {
			return nil, err
		}
		l.conns = append(l.conns, conn{fd: fd})
		k := &l.conns[len(l.conns)-1]
		if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return nil, fmt.Errorf("watching a connection: %w", err)
		}
		l.byFD[int32(fd)] = k
		l.idle = append(l.idle, k)
	}
	return l, nil
}

func (l *loop) close() error {
	err := unix.Close(l.epoll)
	for i := range l.conns {
		err = errors.Join(err, unix.Close(l.conns[i].fd))
	}
	return err
}

// due returns the time after the start at which a request is due.
func (l *loop) due(n int) time.Duration { return time.Duration(float64(n) * l.every) }

// greet sends one request on each connection, one after the other, that is not counted,
// so that the server's work for a new connection is over before the first counted one.
func (l *loop) greet(ctx context.Context) error {
	for i := range l.conns {
		k := &l.conns[i]
		k.request = l.cfg.Request(k.request[:0], i)
		if n, err := unix.Write(k.fd, k.request); err != nil || n != len(k.request) {
			return fmt.Errorf("sending the first request of a connection: %d of %d bytes: %w", n, len(k.request), err)
		}
		over := time.Now().Add(l.cfg.Drain)
		for whole := false; !whole; {
			if time.Now().After(over) {
				return errors.New("the first answer on a connection has not come")
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			ready := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(ready, 100); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("waiting for a first answer: %w", err)
			}
			var err error
			if whole, err = k.read(l.cfg.Status); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loop) run(ctx context.Context, total int) error {
	events := make([]unix.EpollEvent, 256)
	l.start = time.Now()
	end := l.due(total) + l.cfg.Drain
	for l.got < total {
		now := time.Since(l.start)
		if err := ctx.Err(); err != nil {
			return err
		}
		if now > end {
			return fmt.Errorf("%d of %d answers have not come", total-l.got, total)
		}
		if err := l.send(now, total); err != nil {
			return err
		}
		n, err := l.wait(events, total)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if err := l.receive(l.byFD[e.Fd]); err != nil {
				return err
			}
		}
	}
	l.result.took = time.Since(l.start)
	return nil
}

// send sends what is due, as far as there are connections.
func (l *loop) send(now time.Duration, total int) error {
	for l.sent < total && len(l.idle) > 0 && l.due(l.sent) <= now {
		k := l.idle[len(l.idle)-1]
		l.idle = l.idle[:len(l.idle)-1]
		k.due = l.due(l.sent)
		k.request = l.cfg.Request(k.request[:0], l.sent)
		if n, err := unix.Write(k.fd, k.request); err != nil || n != len(k.request) {
			return fmt.Errorf("sending request %d: %d of %d bytes: %w", l.sent, n, len(k.request), err)
		}
		now = time.Since(l.start)
		l.result.late = append(l.result.late, now-k.due)
		l.sent++
	}
	return nil
}

// wait waits for answers, until the next request is due if it could be sent, and
// for some time at most.
func (l *loop) wait(events []unix.EpollEvent, total int) (int, error) {
	timeout := 100 * time.Millisecond
	if l.cfg.Awake {
		timeout = 0
	} else if l.sent < total && len(l.idle) > 0 {
		timeout = min(timeout, max(0, l.due(l.sent)-time.Since(l.start)))
	}
	n, err := epollWait(l.epoll, events, timeout)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("waiting for answers: %w", err)
	}
	return n, nil
}

// receive reads what there is of an answer.
func (l *loop) receive(k *conn) error {
	whole, err := k.read(l.cfg.Status)
	if err != nil || !whole {
		return err
	}
	l.result.waits = append(l.result.waits, time.Since(l.start)-k.due)
	l.got++
	l.idle = append(l.idle, k)
	return nil
}
