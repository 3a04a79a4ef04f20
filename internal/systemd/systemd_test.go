package systemd_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

func TestWithoutAManagerNothingIsSaid(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	require.NoError(t, systemd.Ready(t.Context()))
}
