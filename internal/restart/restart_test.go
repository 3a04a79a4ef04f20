package restart_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/restart"
)

const limit = time.Minute

// role names what a process of this test's program does instead of testing.
const role = "RESTART_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	if err := serve(os.Getenv(role)); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve prints the sockets of the process, and answers one connection with its id. Then
// it restarts, if its input says so.
func serve(addr string) error {
	sockets, err := restart.Inherit()
	if err != nil {
		return err
	}
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "LISTEN_") {
			return errors.New("a child would inherit " + v)
		}
	}
	ln, err := sockets.Open(context.Background(), "redirects", addr, "--addr")
	if err != nil {
		return err
	}
	if err := sockets.Close(slog.New(slog.NewTextHandler(os.Stdout, nil))); err != nil {
		return err
	}
	fmt.Printf("%d at %s after a restart: %t\n", os.Getpid(), ln.Addr(), sockets.OfRestart())
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	_, err = io.WriteString(c, "answered")
	if err := errors.Join(err, c.Close()); err != nil {
		return err
	}
	var next [1]byte
	if _, err := os.Stdin.Read(next[:]); err != nil {
		return nil //nolint:nilerr // there is nothing more to do
	}
	var held restart.Held
	if err := errors.Join(held.Add("redirects", ln), ln.Close()); err != nil {
		return err
	}
	fmt.Println("closed")
	if _, err := os.Stdin.Read(next[:]); err != nil {
		return err
	}
	return held.Exec()
}

// process is a process of this test's program.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Writer
	out   *bufio.Reader
}

// start runs the program at addr. With sockets it plays systemd: they are the descriptors
// from 3 on, and a shell writes its own process id, which the program then has.
func start(t *testing.T, addr, names string, sockets ...*os.File) *process {
	t.Helper()
	script := `exec "$0" -test.run=^$`
	if len(sockets) > 0 {
		script = fmt.Sprintf(`LISTEN_PID=$$ LISTEN_FDS=%d LISTEN_FDNAMES=%s `, len(sockets), names) + script
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script, os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+addr)
	cmd.ExtraFiles, cmd.Stderr = sockets, os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &process{t, cmd, in, bufio.NewReader(out)}
}

func (p *process) line() string {
	p.t.Helper()
	text, err := p.out.ReadString('\n')
	require.NoError(p.t, err)
	return strings.TrimSpace(text)
}

func (p *process) next() {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, "\n")
	require.NoError(p.t, err)
}

// listen returns a socket, and its address.
func listen(t *testing.T) (addr string, socket *os.File) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	socket, err = ln.(*net.TCPListener).File()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(socket.Close(), ln.Close())) })
	return ln.Addr().String(), socket
}

func answered(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(limit)))
	text, err := io.ReadAll(c)
	require.NoError(t, errors.Join(err, c.Close()))
	require.Equal(t, "answered", string(text))
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, limit)
	require.NoError(t, err)
	return c
}

func TestHeld_ConnectionsWaitForTheNextProgramOfTheProcess(t *testing.T) {
	p := start(t, "127.0.0.1:0", "")
	var addr string
	first := p.line()
	_, err := fmt.Sscanf(first, "%d at %s after", new(int), &addr)
	require.NoError(t, err, first)
	answered(t, dial(t, addr))
	for range 3 { // also of a program that has inherited it
		p.next()
		require.Equal(t, "closed", p.line())
		waits := dial(t, addr)
		p.next()
		require.Equal(t, strings.Replace(first, "false", "true", 1), p.line(), "the same process and address")
		answered(t, waits)
	}
}

func TestSockets_OfSystemdAreUsedByNameAndAddress(t *testing.T) {
	addr, socket := listen(t)
	waits := dial(t, addr)
	p := start(t, addr, "redirects", socket)
	require.Equal(t, fmt.Sprintf("%d at %s after a restart: false", p.cmd.Process.Pid, addr), p.line())
	answered(t, waits)

	for names, at := range map[string]string{"admin": "127.0.0.1:0", "redirects": "127.0.0.2:0", "": "127.0.0.1:0"} {
		_, other := listen(t)
		p := start(t, at, names, other)
		said := p.line()
		require.Contains(t, said, "closing a socket that this process was given, because no setting names it")
		require.Contains(t, p.line(), "after a restart: false", "it opens its own")
	}
}

func TestInherit_RefusesWhatIsNoListeningSocket(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	p := start(t, "127.0.0.1:0", "redirects", file)
	_, err = p.out.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
	require.Error(t, p.cmd.Wait())
}

func TestInherit_LeavesTheSocketsOfAnotherProcessAlone(t *testing.T) {
	t.Setenv("LISTEN_PID", "1")
	t.Setenv("LISTEN_FDS", "1")
	_, err := restart.Inherit()
	require.NoError(t, err)
	require.Empty(t, os.Getenv("LISTEN_FDS"))
}
