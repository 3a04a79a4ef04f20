package systemd_test

import (
	"errors"
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

// hear reads what was said.
func hear(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	text := make([]byte, 256)
	n, err := c.Read(text)
	require.NoError(t, err)
	return string(text[:n])
}

func TestTheManagerHearsOfStartAndStop(t *testing.T) {
	c := manager(t)
	require.NoError(t, systemd.Ready(t.Context()))
	require.Equal(t, "READY=1\n", hear(t, c))
	require.NoError(t, systemd.Stopping(t.Context()))
	require.Equal(t, "STOPPING=1\n", hear(t, c))
}

// TestKeepSocket_OutlivesTheListener asks the manager's copy of a socket for connections
// that were made after the listener was closed.
func TestKeepSocket_OutlivesTheListener(t *testing.T) {
	c := manager(t)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, systemd.KeepSocket(t.Context(), "redirects", ln.(*net.TCPListener)))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	text, rights := make([]byte, 256), make([]byte, 256)
	n, m, _, _, err := c.ReadMsgUnix(text, rights)
	require.NoError(t, err)
	require.Equal(t, "FDSTORE=1\nFDPOLL=0\nFDNAME=redirects\n", string(text[:n]))
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	require.NoError(t, err)
	require.Len(t, messages, 1)
	descriptors, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	require.Len(t, descriptors, 1)
	require.NoError(t, ln.Close())

	file := os.NewFile(uintptr(descriptors[0]), "redirects")
	kept, err := net.FileListener(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	visitor, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", kept.Addr().String())
	require.NoError(t, err, "connections wait")
	conn, err := kept.Accept()
	require.NoError(t, err)
	require.NoError(t, errors.Join(conn.Close(), visitor.Close(), kept.Close()))

	require.NoError(t, systemd.DropSockets(t.Context(), "redirects"))
	require.Equal(t, "FDSTOREREMOVE=1\nFDNAME=redirects\n", hear(t, c))
}

func TestWithoutAManagerNothingIsSaid(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	require.NoError(t, systemd.Ready(t.Context()))
}
