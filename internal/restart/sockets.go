// Package restart replaces the program of a process by the one on the disk, without
// another process (execve). Listening sockets stay open during the replacement, so that
// connections wait for the new program. The new program finds the sockets in variables of
// its environment, as it finds sockets of systemd (sd_listen_fds(3)).
//
// The package knows nothing of the service that restarts.
package restart

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"waypost/internal/listener"
)

// Variables of the environment. The descriptors replace the number of sockets where they
// are not the ones from 3 on: execve keeps the descriptors of the process, and the low
// ones are in use by Go. The note is the program's own.
const (
	pidVariable         = "LISTEN_PID"
	countVariable       = "LISTEN_FDS"
	namesVariable       = "LISTEN_FDNAMES"
	descriptorsVariable = "LISTEN_DESCRIPTORS"
	noteVariable        = "LISTEN_NOTE"
)

// Limits of the environment.
const (
	firstDescriptor = 3 // of systemd
	maxSockets      = 256
)

// Sockets are listening sockets that the program before, or systemd, has left to this
// process.
type Sockets struct {
	all       []socket
	ofRestart bool
	note      string
}

type socket struct {
	name string
	net.Listener
}

// Inherit returns the sockets of this process, and removes the variables, so that no
// child has them. It is called once, before the process opens files.
func Inherit() (s *Sockets, err error) {
	pid, names := os.Getenv(pidVariable), os.Getenv(namesVariable)
	count, descriptors, note := os.Getenv(countVariable), os.Getenv(descriptorsVariable), os.Getenv(noteVariable)
	for _, v := range []string{pidVariable, countVariable, namesVariable, descriptorsVariable, noteVariable} {
		err = errors.Join(err, os.Unsetenv(v))
	}
	s = &Sockets{}
	if err != nil || pid != strconv.Itoa(os.Getpid()) {
		return s, err // the variables are of another process
	}
	if s.ofRestart = descriptors != ""; s.ofRestart {
		s.note = note
	}
	fds, err := parseDescriptors(count, descriptors)
	if err != nil {
		return s, err
	}
	named := strings.Split(names, ":")
	for i, fd := range fds {
		unix.CloseOnExec(fd)
		one := socket{name: "unknown"}
		if i < len(named) && named[i] != "" {
			one.name = named[i]
		}
		file := os.NewFile(uintptr(fd), one.name)
		if file == nil {
			return s, errors.Join(fmt.Errorf("%s: %d is no descriptor", pidVariable, fd), s.Close(slog.New(slog.DiscardHandler)))
		}
		one.Listener, err = net.FileListener(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return s, errors.Join(fmt.Errorf("the socket %s (descriptor %d) that this process was given: %w", one.name, fd, err),
				s.Close(slog.New(slog.DiscardHandler)))
		}
		s.all = append(s.all, one)
	}
	return s, nil
}

// OfRestart reports whether the process had another program before.
func (s *Sockets) OfRestart() bool { return s != nil && s.ofRestart }

// Note returns the note that the program before has left to this one; "" when there was
// none.
func (s *Sockets) Note() string {
	if s == nil {
		return ""
	}
	return s.note
}

// parseDescriptors returns the descriptors that the variables name.
func parseDescriptors(count, descriptors string) (fds []int, err error) {
	if descriptors != "" {
		for text := range strings.SplitSeq(descriptors, ":") {
			fd, err := strconv.Atoi(text)
			if err != nil || fd < 0 || len(fds) == maxSockets {
				return nil, fmt.Errorf("%s=%q is no list of descriptors", descriptorsVariable, descriptors)
			}
			fds = append(fds, fd)
		}
		return fds, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxSockets {
		return nil, fmt.Errorf("%s=%q is no number of sockets", countVariable, count)
	}
	for i := range n {
		fds = append(fds, firstDescriptor+i)
	}
	return fds, nil
}

// Open returns the socket of that name at addr, with the connections that wait there, or
// opens one. An error names flag, which chooses another address.
func (s *Sockets) Open(ctx context.Context, name, addr, flag string) (net.Listener, error) {
	if want, err := net.ResolveTCPAddr("tcp", addr); err == nil && s != nil {
		for i, one := range s.all {
			if one.name == name && isAt(one.Addr(), want) {
				s.all = append(s.all[:i:i], s.all[i+1:]...)
				return one.Listener, nil
			}
		}
	}
	return listener.Open(ctx, addr, flag)
}

// isAt reports whether a start would open a socket at got for the address want. Port 0 is
// any port.
func isAt(got net.Addr, want *net.TCPAddr) bool {
	at, ok := got.(*net.TCPAddr)
	any := len(want.IP) == 0 || want.IP.IsUnspecified()
	return ok && (want.Port == 0 || at.Port == want.Port) && (any && at.IP.IsUnspecified() || !any && at.IP.Equal(want.IP))
}

// Close closes the sockets that no setting asks for.
func (s *Sockets) Close(log *slog.Logger) (err error) {
	if s == nil {
		return nil
	}
	for _, one := range s.all {
		log.Warn("closing a socket that this process was given, because no setting names it", "name", one.name, "addr", one.Addr().String())
		err = errors.Join(err, one.Listener.Close())
	}
	s.all = nil
	return err
}

// Held are sockets that outlive their listeners.
type Held struct {
	Note string // for the next program

	names       []string
	descriptors []int
}

// Add keeps the socket of a listener open.
func (h *Held) Add(name string, ln net.Listener) error {
	c, ok := ln.(syscall.Conn)
	if !ok {
		return fmt.Errorf("the listener %s has no socket", name)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(original uintptr) {
		fd, dupErr = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return err
	}
	if dupErr != nil {
		return os.NewSyscallError("fcntl", dupErr)
	}
	h.names, h.descriptors = append(h.names, name), append(h.descriptors, fd)
	return nil
}

// Close closes the sockets, if Exec did not leave them to another program.
func (h *Held) Close() (err error) {
	for _, fd := range h.descriptors {
		err = errors.Join(err, os.NewSyscallError("close", unix.Close(fd)))
	}
	h.names, h.descriptors = nil, nil
	return err
}
