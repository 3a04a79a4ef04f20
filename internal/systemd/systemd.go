// Package systemd notifies the service manager that a process serves, that it stops, or
// that another process is the main one from now on (sd_notify(3)).
// Without a service manager that listens, it does nothing.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// variable names the socket at which the service manager listens.
const variable = "NOTIFY_SOCKET"

// barrierLimit bounds the time in which the service manager reads a notification.
const barrierLimit = 5 * time.Second

// Ready says that the process serves.
func Ready(ctx context.Context) error { return notify(ctx, "READY=1") }

// Stopping says that the process is about to end.
func Stopping(ctx context.Context) error { return notify(ctx, "STOPPING=1") }

// HandOver makes pid, a process of the same service, the main one, and returns when
// the service manager knows that: then this process may end, and the service goes on.
func HandOver(ctx context.Context, pid int) error {
	if os.Getenv(variable) == "" {
		return nil
	}
	if err := notify(ctx, "MAINPID="+strconv.Itoa(pid)); err != nil {
		return err
	}
	return barrier(ctx)
}

func notify(ctx context.Context, state string) error {
	c, err := dial(ctx)
	if c == nil {
		return err
	}
	_, err = c.Write([]byte(state + "\n"))
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	return nil
}

func dial(ctx context.Context) (*net.UnixConn, error) {
	path := os.Getenv(variable)
	if path == "" {
		return nil, nil //nolint:nilnil // nobody listens
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unixgram", path)
	if err != nil {
		return nil, fmt.Errorf("tell systemd: %w", err)
	}
	return c.(*net.UnixConn), nil
}

// barrier returns when everything that was sent before has been read. With the word
// goes an end of a pipe, which the service manager closes when it reaches that message.
func barrier(ctx context.Context) (err error) {
	c, err := dial(ctx)
	if c == nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ours, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	err = send(c, "BARRIER=1", theirs)
	if err = errors.Join(err, theirs.Close()); err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	if err := ours.SetReadDeadline(time.Now().Add(barrierLimit)); err != nil {
		return fmt.Errorf("wait for systemd: %w", err)
	}
	if _, err := ours.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("systemd does not read what it is told")
	}
	return nil
}

// send writes a message with a file. net.UnixConn.WriteMsgUnix refuses that on a
// datagram socket that is connected, as ours is.
func send(c *net.UnixConn, message string, file *os.File) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		sendErr = unix.Sendmsg(int(fd), []byte(message), unix.UnixRights(int(file.Fd())), nil, unix.MSG_NOSIGNAL)
		return !errors.Is(sendErr, unix.EAGAIN)
	})
	return errors.Join(err, sendErr)
}
