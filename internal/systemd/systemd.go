// Package systemd notifies the service manager that a process serves or stops, and leaves
// sockets in its care (sd_notify(3)). Without a service manager that listens, it does
// nothing.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// variable names the socket at which the service manager listens.
const variable = "NOTIFY_SOCKET"

// Ready says that the process serves.
func Ready(ctx context.Context) error { return notify(ctx, "READY=1") }

// Stopping says that the process is about to end.
func Stopping(ctx context.Context) error { return notify(ctx, "STOPPING=1") }

// KeepSocket makes the service manager hold a socket open while the unit restarts, also
// after a crash. The next process of the unit gets the socket by that name
// (LISTEN_FDNAMES), with the connections that wait there. The unit has to allow it
// (FileDescriptorStoreMax=). A stop of the unit closes the socket.
func KeepSocket(ctx context.Context, name string, socket syscall.Conn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("leave a socket to systemd: %w", err)
	}
	var notified error
	err = raw.Control(func(fd uintptr) {
		notified = send(ctx, "FDSTORE=1\nFDPOLL=0\nFDNAME="+name, unix.UnixRights(int(fd)))
	})
	return errors.Join(err, notified)
}

// DropSockets makes the service manager close all sockets of that name.
func DropSockets(ctx context.Context, name string) error {
	return notify(ctx, "FDSTOREREMOVE=1\nFDNAME="+name)
}

func notify(ctx context.Context, state string) error { return send(ctx, state, nil) }

// send sends a message with file descriptors, in the encoding of unix(7).
func send(ctx context.Context, state string, rights []byte) error {
	c, err := dial(ctx)
	if c == nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		var sent error
		err = raw.Write(func(fd uintptr) bool {
			sent = unix.Sendmsg(int(fd), []byte(state+"\n"), rights, nil, unix.MSG_NOSIGNAL)
			return !errors.Is(sent, unix.EAGAIN)
		})
		err = errors.Join(err, os.NewSyscallError("sendmsg", sent))
	}
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
