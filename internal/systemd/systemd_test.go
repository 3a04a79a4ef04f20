package systemd_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/internal/systemd"
)

// manager listens as systemd does.
func manager(t *testing.T) *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	t.Setenv("NOTIFY_SOCKET", path)
	return c
}

// hear reads what was said, and what came with it.
func hear(t *testing.T, c *net.UnixConn) (string, []int) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	text, rights := make([]byte, 256), make([]byte, unix.CmsgSpace(4))
	n, oob, _, _, err := c.ReadMsgUnix(text, rights)
	require.NoError(t, err)
	var fds []int
	if oob > 0 {
		controls, err := unix.ParseSocketControlMessage(rights[:oob])
		require.NoError(t, err)
		fds, err = unix.ParseUnixRights(&controls[0])
		require.NoError(t, err)
	}
	return string(text[:n]), fds
}

func TestTheManagerHearsOfStartAndStop(t *testing.T) {
	c := manager(t)
	require.NoError(t, systemd.Ready(t.Context()))
	said, _ := hear(t, c)
	require.Equal(t, "READY=1\n", said)
	require.NoError(t, systemd.Stopping(t.Context()))
	said, _ = hear(t, c)
	require.Equal(t, "STOPPING=1\n", said)
}

func TestAHandOverWaitsUntilTheManagerHasHeardOfIt(t *testing.T) {
	c := manager(t)
	over := make(chan error, 1)
	go func() { over <- systemd.HandOver(t.Context(), 4711) }()
	said, _ := hear(t, c)
	require.Equal(t, "MAINPID=4711\n", said)
	said, fds := hear(t, c)
	require.Equal(t, "BARRIER=1", said)
	require.Len(t, fds, 1)
	select {
	case err := <-over:
		require.Fail(t, "it did not wait", "%v", err)
	default:
	}
	require.NoError(t, unix.Close(fds[0]))
	require.NoError(t, <-over)
}

func TestWithoutAManagerNothingIsSaid(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	require.NoError(t, systemd.Ready(t.Context()))
	require.NoError(t, systemd.HandOver(t.Context(), os.Getpid()))
}
