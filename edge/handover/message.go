package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// protocol is the version of the conversation.
const protocol = 1

// Bounds of a message.
const (
	maxMessage = 16 << 10 // bytes
	maxFiles   = 64       // sent along
	maxReason  = 1 << 10  // bytes of text for the other side's log
)

// kind is the type of a message.
type kind string

const (
	// The first message of a connection:
	claim   kind = "claim"   // by a successor: I want to take over
	restart kind = "restart" // by an operator's command: start a successor

	// The incumbent's answers:
	refused kind = "refused" // with the reason
	estate  kind = "estate"  // with names of the files that come along: the store is free
	yours   kind = "yours"   // the successor serves from now on
	back    kind = "back"    // with the reason: the incumbent goes back to work
	drained kind = "drained" // the incumbent answers nothing more
	done    kind = "done"    // a successor serves, as was asked for

	ready kind = "ready" // by the successor: I can serve
)

// message is one packet of the socket, in JSON. Unknown fields are passed over.
type message struct {
	Kind     kind     `json:"kind"`
	Protocol int      `json:"protocol,omitempty"`
	PID      int      `json:"pid,omitempty"`
	Version  string   `json:"version,omitempty"` // of the program
	Formats  string   `json:"formats,omitempty"` // of what it keeps on the disk
	Reason   string   `json:"reason,omitempty"`
	Files    []string `json:"files,omitempty"` // names of the files that come along
}

var (
	errMessage = errors.New("the other side sent what is no message")
	errClosed  = errors.New("the other side has closed the connection")
)

// decode reads a message that came with a number of files.
func decode(b []byte, files int) (m message, err error) {
	if len(b) > maxMessage {
		return m, fmt.Errorf("%w: %d bytes", errMessage, len(b))
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return message{}, fmt.Errorf("%w: %w", errMessage, err)
	}
	if m.Kind == "" || len(m.Reason) > maxReason || len(m.Files) != files || m.PID < 0 {
		return message{}, errMessage
	}
	return m, nil
}

// conn is one end of a conversation.
type conn struct{ *net.UnixConn }

// send writes a message, with the files that it names.
func (c conn) send(m message, files []*os.File) error {
	m.Reason = strings.ToValidUTF8(m.Reason[:min(len(m.Reason), maxReason)], "") // JSON would make it longer
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("a message of %d bytes with %d files is too large", len(text), len(files))
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(text, rights, nil)
	return err
}

// receive reads a message until the deadline, none when that is zero, or until ctx
// ends. The error is errClosed at the end of the conversation.
func (c conn) receive(ctx context.Context, deadline time.Time) (m message, files []*os.File, err error) {
	if err := c.SetReadDeadline(deadline); err != nil {
		return m, nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now()) })()
	text, rights := make([]byte, maxMessage+1), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, oob, flags, _, err := c.ReadMsgUnix(text, rights)
	if err != nil || n == 0 {
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			err = errClosed
		}
		return m, nil, err
	}
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	if files, err = parseRights(rights[:oob]); err != nil {
		return m, files, err
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return m, files, fmt.Errorf("%w: it is too long", errMessage)
	}
	m, err = decode(text[:n], len(files))
	return m, files, err
}

// parseRights takes the files out of a control message.
func parseRights(b []byte) (files []*os.File, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	controls, err := unix.ParseSocketControlMessage(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMessage, err)
	}
	for i := range controls {
		fds, err := unix.ParseUnixRights(&controls[i])
		if err != nil {
			return files, fmt.Errorf("%w: %w", errMessage, err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // another process's, too
	}
}

// duplicate returns another file for the same socket or file, without a change to the
// original, which [net.TCPListener.File] and [os.File.Fd] would make.
func duplicate(c syscall.Conn) (*os.File, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(original uintptr) {
		fd, dupErr = unix.FcntlInt(original, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, os.NewSyscallError("fcntl", dupErr)
	}
	return os.NewFile(uintptr(fd), "to be handed over"), nil
}
