package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

// lateListener accepts connections whose read timeout begins only after a number of
// bytes, so that a test that is held up before is not taken for a slow client.
type lateListener struct {
	net.Listener
	mu    sync.Mutex
	after int64
	last  *lateConn
}

type lateConn struct {
	net.Conn
	l     *lateListener
	read  int64
	until time.Time
}

func (l *lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = &lateConn{Conn: c, l: l}
	return l.last, nil
}

// begin sets after how many bytes the timeout begins, also for the last connection.
func (l *lateListener) begin(after int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after = after
	if l.last != nil {
		_ = l.last.tell() // an error means that it has ended
	}
}

// tell sets the deadline, if it is time. l.mu is held.
func (c *lateConn) tell() error {
	if c.read < c.l.after {
		return nil
	}
	return c.Conn.SetReadDeadline(c.until)
}

func (c *lateConn) SetReadDeadline(t time.Time) error {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.until = t
	return c.tell()
}

func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.read += int64(n); err == nil {
		err = c.tell()
	}
	return n, err
}

// sentListener accepts a connection when its first request has been sent.
type sentListener struct {
	net.Listener
	sent <-chan struct{}
}

func (l sentListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		<-l.sent
	}
	return c, err
}

// served returns a connection to a server on which a request was answered in time,
// however long the client took to send it.
func served(t *testing.T, listen string, cfg server.Config) net.Conn {
	t.Helper()
	ln, err := net.Listen("tcp", listen)
	require.NoError(t, err)
	sent := make(chan struct{}, 1)
	start(t, cfg, func(s *server.Server) error { return s.Serve(sentListener{ln, sent}) })
	conn := dial(t, ln.Addr().String())
	_, err = io.WriteString(conn, goodRequest)
	sent <- struct{}{}
	require.NoError(t, err)
	require.Equal(t, 302, read(t, bufio.NewReader(conn), false).StatusCode)
	return conn
}

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
		_, addr := serveOn(t, network, server.Config{ReadTimeout: readTimeout})
		t.Run(network, func(t *testing.T) {
			for name, c := range map[string]struct {
				send   func(net.Conn)
				status int
			}{
				"who says nothing":              {func(net.Conn) {}, 408},
				"who sends half a request line": {func(c net.Conn) { _, _ = io.WriteString(c, "GET /fou") }, 408},
				"who sends half a header":       {func(c net.Conn) { _, _ = io.WriteString(c, "GET /found302 HTTP/1.1\r\nHost: a\r\n") }, 408},
				"who sends a byte now and then": {func(c net.Conn) { trickle(t, c, endless) }, 408},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					conn := dial(t, addr)
					c.send(conn)
					require.Equal(t, c.status, read(t, bufio.NewReader(conn), false).StatusCode)
					_, err := io.ReadAll(conn) // closed, or reset if bytes were left unread
					require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
				})
			}
			t.Run("who sends half a second request", func(t *testing.T) {
				t.Parallel()
				conn := served(t, network, server.Config{ReadTimeout: readTimeout})
				_, err := io.WriteString(conn, "GET /fou")
				require.NoError(t, err)
				require.Equal(t, 408, read(t, bufio.NewReader(conn), false).StatusCode)
				_, err = io.ReadAll(conn)
				require.NoError(t, err)
			})
		})
	}
}

func TestEmptyLinesAfterARequestPutNothingOff(t *testing.T) {
	c := served(t, "127.0.0.1:0", server.Config{ReadTimeout: 300 * time.Millisecond})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var err error
	for ; err == nil; <-tick.C {
		_, err = io.WriteString(c, "\r\n")
	}
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it goes on and on")
}

func TestAConnectionThatIsNotUsedIsClosedWithoutAWord(t *testing.T) {
	overBothFamilies(t, useNoConnection)
}

func useNoConnection(t *testing.T, listen string) {
	_, addr := serveOn(t, listen, server.Config{IdleTimeout: 50 * time.Millisecond})
	conn := dial(t, addr)
	requireServed(t, conn, goodRequest)
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Empty(t, rest)
}

func TestAConnectionMayBeIdleForLongerThanARequestMayTake(t *testing.T) {
	conn := served(t, "127.0.0.1:0", server.Config{ReadTimeout: 300 * time.Millisecond})
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it is open after more than the time for a request")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(waitLimit)))
	requireServed(t, conn, goodRequest)
}

// Clients that end their side of the connection, and keep the other one open, are ended
// by the server in time. The second and third round need no more of this process than
// the first.
func TestHalfClosed_ConnectionsAreEndedInTimeAndLeaveNothing(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(listen, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			_, addr := serveOn(t, listen, server.Config{ReadTimeout: time.Second, IdleTimeout: time.Second, Metrics: registry})
			round := func() {
				var open []net.Conn
				for range 25 {
					for _, before := range []int{0, 1} {
						for _, last := range []string{"", "GET /fou", goodRequest} {
							conn := dial(t, addr)
							for range before {
								_, err := io.WriteString(conn, goodRequest)
								require.NoError(t, err)
								read(t, bufio.NewReaderSize(conn, 16<<10), false)
							}
							_, err := io.WriteString(conn, last)
							require.NoError(t, err)
							require.NoError(t, conn.(*net.TCPConn).CloseWrite())
							open = append(open, conn)
						}
					}
				}
				for _, conn := range open {
					_, err := io.Copy(io.Discard, conn)
					require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
					require.NoError(t, conn.Close())
				}
				require.Eventually(t, func() bool {
					return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"] == 0
				}, waitLimit, pollEvery)
			}
			round()
			descriptors, goroutines := len(openFiles(t)), runtime.NumGoroutine()
			round()
			round()
			require.LessOrEqual(t, len(openFiles(t)), descriptors)
			require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+10)
		})
	}
}

// openFiles returns the descriptors of this process; none where it cannot list them.
func openFiles(t *testing.T) []os.DirEntry {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return files
}

// TestWhoeverTakesNoAnswersIsEndedInTime asks for so much that the kernel's buffers
// fill up, and reads nothing.
func TestWhoeverTakesNoAnswersIsEndedInTime(t *testing.T) { overBothFamilies(t, takeNoAnswers) }

func takeNoAnswers(t *testing.T, listen string) {
	registry := prometheus.NewPedanticRegistry()
	_, addr := serveOn(t, listen, server.Config{WriteTimeout: 100 * time.Millisecond, Metrics: registry})
	conn := dial(t, addr)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	var err error
	for err == nil { // until the server resets the connection
		_, err = io.WriteString(conn, "GET /longlink HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Eventually(t, func() bool {
		return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"] == 0
	}, waitLimit, pollEvery)
}

func TestAHandshakeIsEndedInTime(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	srv, _ := certificate(t)
	addr := serveTLS(t, server.Config{ReadTimeout: 200 * time.Millisecond, Metrics: registry}, srv)
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
}

// countingConn knows how many bytes were sent.
type countingConn struct {
	net.Conn
	sent int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent += int64(n)
	return n, err
}

func TestAfterAHandshakeARequestHasItsTimeLikeAnyOther(t *testing.T) {
	srv, client := certificate(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	late := &lateListener{Listener: ln, after: math.MaxInt64}
	start(t, server.Config{ReadTimeout: 300 * time.Millisecond}, func(s *server.Server) error { return s.ServeTLS(late, srv) })
	raw := &countingConn{Conn: dial(t, ln.Addr().String())}
	conn := tls.Client(raw, client)
	require.NoError(t, conn.Handshake())
	late.begin(raw.sent)
	require.Equal(t, 408, read(t, bufio.NewReader(conn), false).StatusCode)
}
