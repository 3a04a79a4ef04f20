package handover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// socketName is in the data directory, for the directory's owner and root alone.
const socketName = "handover.sock"

// network keeps messages apart, and files with their messages.
const network = "unixpacket"

// maxPath bounds the path in a socket's address; longer paths go by way of an open
// directory.
const maxPath = 100

// at calls use with a path of a file in dir that is short enough for a socket.
func at(dir, file string, use func(path string) error) (err error) {
	if path := filepath.Join(dir, file); len(path) <= maxPath {
		return use(path)
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return use("/proc/self/fd/" + strconv.Itoa(int(d.Fd())) + "/" + file)
}

// listen makes the socket of a directory, in the place of one that an earlier process
// has or had there.
func listen(ctx context.Context, dir string) (ln *net.UnixListener, err error) {
	fresh := "." + socketName + "." + strconv.Itoa(os.Getpid())
	if err := os.Remove(filepath.Join(dir, fresh)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	err = at(dir, fresh, func(path string) error {
		l, err := (&net.ListenConfig{}).Listen(ctx, network, path)
		if err != nil {
			return err
		}
		ln = l.(*net.UnixListener)
		ln.SetUnlinkOnClose(false) // by then it may be the successor's
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listen for successors: %w", err)
	}
	err = os.Chmod(filepath.Join(dir, fresh), 0o600)
	if err == nil {
		err = os.Rename(filepath.Join(dir, fresh), filepath.Join(dir, socketName))
	}
	if err != nil {
		return nil, fmt.Errorf("listen for successors: %w", errors.Join(err, ln.Close()))
	}
	return ln, nil
}

// dial connects to the process that listens in the directory.
func dial(ctx context.Context, dir string) (c conn, err error) {
	err = at(dir, socketName, func(path string) error {
		n, err := (&net.Dialer{}).DialContext(ctx, network, path)
		if err == nil {
			c = conn{n.(*net.UnixConn)}
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		err = ErrNoIncumbent
	}
	return c, err
}

// peer is the process at the other end, as the kernel knows it.
type peer struct {
	pid, uid int
	fd       int // readable once the process has ended
}

// identify finds the process at the other end. The peer has to be let go of.
func (c conn) identify() (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return peer{}, err
	}
	if credErr != nil {
		return peer{}, os.NewSyscallError("getsockopt", credErr)
	}
	if cred.Pid <= 0 {
		return peer{}, errors.New("the process at the other end of the socket is not visible from here")
	}
	fd, err := unix.PidfdOpen(int(cred.Pid), 0)
	if errors.Is(err, unix.ESRCH) {
		return peer{}, fmt.Errorf("process %d has ended: %w", cred.Pid, ErrNoIncumbent)
	}
	if err != nil {
		return peer{}, os.NewSyscallError("pidfd_open", err)
	}
	return peer{pid: int(cred.Pid), uid: int(cred.Uid), fd: fd}, nil
}

// hungUp reports whether the other end has been closed.
func (c conn) hungUp() (bool, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false, err
	}
	look, pollErr := []unix.PollFd{{}}, error(nil) // for errors, which are always reported
	if err := raw.Control(func(fd uintptr) {
		look[0].Fd = int32(fd)
		_, pollErr = unix.Poll(look, 0)
	}); err != nil {
		return false, err
	}
	return look[0].Revents&unix.POLLHUP != 0, os.NewSyscallError("poll", pollErr)
}

func (p peer) close() error { return unix.Close(p.fd) }

// await waits until the process has ended, or ctx has.
func (p peer) await(ctx context.Context) error {
	const look = 50 // milliseconds, after which ctx is asked again
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, look)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("poll", err)
		case n > 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// kill ends the process for good.
func (p peer) kill() error {
	err := unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return os.NewSyscallError("pidfd_send_signal", err)
}
