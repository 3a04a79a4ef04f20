package node

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenListeners_AFailureLeavesNoneOpen(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, busy.Close()) }()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, first.Close())
	free := first.Addr().String()
	cfg := Listen{Addr: []string{free}, Admin: "127.0.0.1:0", TLS: []string{busy.Addr().String()}}
	_, err = openListeners(t.Context(), &cfg, nil)
	require.ErrorContains(t, err, "is in use")
	require.True(t, strings.HasSuffix(err.Error(), "--tls-addr"))
	again, err := net.Listen("tcp", free)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}
