package node

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/listener"
)

func TestOpenListeners_AFailureLeavesNoneOpen(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, busy.Close()) }()
	var opened []net.Listener
	open := func(ctx context.Context, addr, flag string) (net.Listener, error) {
		ln, err := listener.Open(ctx, addr, flag)
		if err == nil {
			opened = append(opened, ln)
		}
		return ln, err
	}
	const free = "127.0.0.1:0"
	cfg := Listen{Addr: free, Admin: free, More: []string{free}, TLS: []string{busy.Addr().String(), free}, Relay: free}
	_, err = openListeners(t.Context(), &cfg, open)
	require.ErrorContains(t, err, "is in use")
	require.True(t, strings.HasSuffix(err.Error(), "--tls-addr"))
	require.Len(t, opened, 3)
	for _, ln := range opened {
		_, err = ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	}
}
