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

// TestFastPath_AnswersRequestsCutAnywhere cuts requests on a connection that has sent
// whole ones before.
func TestFastPath_AnswersRequestsCutAnywhere(t *testing.T) {
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

// TestFastPath_WritesAnswersToSlowReaders asks for more than the kernel's buffers hold.
func TestFastPath_WritesAnswersToSlowReaders(t *testing.T) {
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

func TestFastPath_AnswersHalfClosedClients(t *testing.T) {
	_, addr := serve(t, server.Config{})
	conn := dial(t, addr)
	_, err := io.WriteString(conn, goodRequest)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 302 Found\r\n"))
}
