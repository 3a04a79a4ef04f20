package server_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/server"
)

// TestARequestIsAnsweredWhereverItIsCut: on one connection, after requests that came
// whole. None may be overlooked, whenever its parts come.
func TestARequestIsAnsweredWhereverItIsCut(t *testing.T) {
	_, addr := serve(t, server.Config{})
	conn := dial(t, addr)
	r := bufio.NewReader(conn)
	for i := range len(goodRequest) {
		for _, part := range []string{goodRequest[:i], goodRequest[i:]} {
			_, err := io.WriteString(conn, part)
			require.NoError(t, err)
		}
		require.Equal(t, 302, read(t, r, false).StatusCode)
	}
}

// TestWhoTakesAnswersLateGetsAllOfThem asks for more than the kernel's buffers hold.
func TestWhoTakesAnswersLateGetsAllOfThem(t *testing.T) {
	const requests = 1000
	_, addr := serve(t, server.Config{})
	conn := dial(t, addr)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(64<<10))
	for range requests {
		_, err := io.WriteString(conn, "GET /longlink HTTP/1.1\r\nHost: a\r\n\r\n")
		require.NoError(t, err)
	}
	r := bufio.NewReader(conn)
	want := newMemoryLinks().links[waypost.DefaultDomain]["longlink"]
	for range requests {
		require.Equal(t, string(want.Payload), read(t, r, false).Header.Get("Location"))
	}
}

func TestWhoEndsHisSideWithTheRequestIsAnsweredAndClosed(t *testing.T) {
	_, addr := serve(t, server.Config{})
	conn := dial(t, addr)
	_, err := io.WriteString(conn, goodRequest)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 302 Found\r\n"))
}
