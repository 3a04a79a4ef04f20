//go:build linux

package openloop

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// conn is a connection with its current request.
type conn struct {
	fd      int
	due     time.Duration
	request []byte
	answer  [16 << 10]byte
	filled  int
}

func connect(addr netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("making a socket: %w", err)
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("connecting to %s: %w", addr, err), unix.Close(fd))
	}
	return fd, nil
}

// read reads what has come, and reports whether the answer is whole.
func (k *conn) read(status int) (whole bool, err error) {
	n, err := unix.Read(k.fd, k.answer[k.filled:])
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading an answer: %w", err)
	case n == 0:
		return false, errors.New("the server closed a connection")
	}
	k.filled += n
	length, err := answerLength(k.answer[:k.filled], status)
	switch {
	case err != nil:
		return false, err
	case length == 0 && k.filled < len(k.answer), length > k.filled && length <= len(k.answer):
		return false, nil
	case length != k.filled:
		return false, fmt.Errorf("an answer of %d bytes, where %d have come", length, k.filled)
	}
	k.filled = 0
	return true, nil
}

var (
	headEnd    = []byte("\r\n\r\n")
	version    = []byte("HTTP/1.1 ")
	lengthName = []byte("\r\ncontent-length:")
)

// answerLength returns the length of the answer at the start of b, 0 when its head is
// not complete.
func answerLength(b []byte, status int) (int, error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return 0, nil
	}
	head := b[:end+2]
	if !bytes.HasPrefix(head, version) || len(head) < len(version)+3 {
		return 0, fmt.Errorf("an answer that begins with %.40q", head)
	}
	if got, err := strconv.Atoi(string(head[len(version) : len(version)+3])); err != nil || got != status {
		return 0, fmt.Errorf("the status is %q and not %d", head[len(version):len(version)+3], status)
	}
	for at := 0; ; at++ {
		next := bytes.IndexByte(head[at:], '\r')
		if next < 0 {
			return 0, errors.New("an answer without Content-Length")
		}
		at += next
		if at+len(lengthName) > len(head) || !bytes.EqualFold(head[at:at+len(lengthName)], lengthName) {
			continue
		}
		value, _, _ := bytes.Cut(head[at+len(lengthName):], []byte("\r"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 31)
		if err != nil {
			return 0, fmt.Errorf("the length of an answer: %w", err)
		}
		return end + len(headEnd) + int(n), nil
	}
}

// epollWait is epoll_pwait2, whose timeout is exact, and which package unix does
// not have.
func epollWait(epoll int, events []unix.EpollEvent, timeout time.Duration) (int, error) {
	ts := unix.NsecToTimespec(timeout.Nanoseconds())
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
