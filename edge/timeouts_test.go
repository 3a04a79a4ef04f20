package edge_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge"
)

// trickle sends one byte after the other, for as long as the server takes them.
func trickle(t *testing.T, c net.Conn, text string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			if _, err := c.Write([]byte{text[i%len(text)]}); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { stop(); _ = c.Close(); <-ended })
}

func TestWhoeverIsSlowIsEndedInTime(t *testing.T) {
	const readTimeout = 400 * time.Millisecond
	endless := "GET /found302 HTTP/1.1\r\nHost: a\r\n" + "X-A: b\r\n"
	for _, network := range []string{"127.0.0.1:0", "[::1]:0"} {
		_, addr := serveOn(t, network, edge.Config{ReadTimeout: readTimeout})
		t.Run(network, func(t *testing.T) {
			for name, c := range map[string]struct {
				send   func(net.Conn)
				status int
			}{
				"who says nothing":              {func(net.Conn) {}, 408},
				"who sends half a request line": {func(c net.Conn) { _, _ = io.WriteString(c, "GET /fou") }, 408},
				"who sends half a header":       {func(c net.Conn) { _, _ = io.WriteString(c, "GET /found302 HTTP/1.1\r\nHost: a\r\n") }, 408},
				"who sends a byte now and then": {func(c net.Conn) { trickle(t, c, endless) }, 408},
				"who sends half a second request": {func(c net.Conn) {
					requireServed(t, c, goodRequest)
					_, _ = io.WriteString(c, "GET /fou")
				}, 408},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					conn := dial(t, addr)
					begin := time.Now()
					c.send(conn)
					require.Equal(t, c.status, read(t, bufio.NewReader(conn), false).StatusCode)
					_, _ = io.ReadAll(conn) // it is closed, or reset where bytes came that nobody read
					require.Less(t, time.Since(begin), 20*readTimeout)
				})
			}
		})
	}
}

func TestEmptyLinesAfterARequestPutNothingOff(t *testing.T) {
	_, addr := serveOn(t, "127.0.0.1:0", edge.Config{ReadTimeout: 300 * time.Millisecond})
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	requireServed(t, c, goodRequest)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); err == nil; <-tick.C {
		require.True(t, time.Now().Before(end), "it goes on and on")
		_, err = io.WriteString(c, "\r\n")
	}
}

func TestAConnectionThatIsNotUsedIsClosedWithoutAWord(t *testing.T) {
	_, addr := serve(t, edge.Config{IdleTimeout: 50 * time.Millisecond})
	conn := dial(t, addr)
	requireServed(t, conn, goodRequest)
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Empty(t, rest)
}

func TestAConnectionMayBeIdleForLongerThanARequestMayTake(t *testing.T) {
	_, addr := serve(t, edge.Config{ReadTimeout: 300 * time.Millisecond, IdleTimeout: time.Minute})
	conn := dial(t, addr)
	requireServed(t, conn, goodRequest)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it is open after more than the time for a request")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(waitLimit)))
	requireServed(t, conn, goodRequest)
}

// TestWhoeverTakesNoAnswersIsEndedInTime asks for so much that the kernel's buffers
// fill up, and reads nothing.
func TestWhoeverTakesNoAnswersIsEndedInTime(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	_, addr := serve(t, edge.Config{WriteTimeout: 100 * time.Millisecond, Metrics: registry})
	conn := dial(t, addr)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	var err error
	for err == nil { // until the server gives up and resets
		_, err = io.WriteString(conn, "GET /longlink HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Eventually(t, func() bool {
		return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"] == 0
	}, waitLimit, pollEvery)
}

func TestAHandshakeIsEndedInTime(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	server, _ := certificate(t)
	addr := serveTLS(t, edge.Config{ReadTimeout: 500 * time.Millisecond, Metrics: registry}, server)
	for name, send := range map[string]func(net.Conn){
		"who says nothing":              func(net.Conn) {},
		"who sends half a hello":        func(c net.Conn) { _, _ = c.Write([]byte("\x16\x03\x01\x02\x00\x01\x00")) },
		"who sends a byte now and then": func(c net.Conn) { trickle(t, c, "\x16\x03\x01\x40\x00"+string(make([]byte, 64))) },
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, addr)
			send(conn)
			got, _ := io.ReadAll(conn)
			require.NotContains(t, string(got), "HTTP/", "nothing is said in clear")
		})
	}
	require.Equal(t, map[string]float64{"tls_handshake": 3}, refusals(t, registry))

	// After the handshake a request has its time like any other.
	_, client := certificate(t)
	client.InsecureSkipVerify = true
	conn, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.Equal(t, 408, read(t, bufio.NewReader(conn), false).StatusCode)
}
