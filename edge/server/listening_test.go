package server_test

import (
	"bufio"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

func TestAServerThatStopsListeningAnswersOnOpenConnections(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := server.New(patient(server.Config{Links: newMemoryLinks()}))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	conn := dial(t, ln.Addr().String())
	in := bufio.NewReader(conn)
	_, err = ask(conn, in)
	require.NoError(t, err)

	require.NoError(t, s.StopListening())
	require.NoError(t, <-served, "it is no failure")
	_, err = net.Dial("tcp", ln.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	for range 3 {
		res, err := ask(conn, in)
		require.NoError(t, err)
		require.False(t, res.Close)
	}
	require.NoError(t, conn.Close())
	require.NoError(t, s.Shutdown(t.Context()))
}
