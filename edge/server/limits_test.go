package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

const goodRequest = "GET /found302 HTTP/1.1\r\nHost: wayp.example\r\n\r\n"

func TestAHeaderAboveTheLimitAnswers431(t *testing.T) { overBothFamilies(t, longHeaders) }

func longHeaders(t *testing.T, listen string) {
	_, addr := serveOn(t, listen, server.Config{})
	for name, request := range map[string]string{
		"many headers":  "GET /found302 HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: "+strings.Repeat("y", 97)+"\r\n", 161),
		"one header":    "GET /found302 HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("y", 16<<10-35),
		"a long target": "GET /" + strings.Repeat("a", 16<<10-5),
	} {
		t.Run(name, func(t *testing.T) {
			res := say(t, addr, request[:16<<10])
			require.Equal(t, 431, res.StatusCode)
			require.True(t, res.Close)
		})
	}
}

func TestAHeaderBelowTheLimitIsServed(t *testing.T) {
	_, addr := serve(t, server.Config{})
	header := strings.Repeat("X: "+strings.Repeat("y", 97)+"\r\n", 158)
	require.Equal(t, 302, say(t, addr, "GET /found302 HTTP/1.1\r\nHost: a\r\n"+header+"\r\n").StatusCode)
}

// from connects from an address of this machine.
func from(t *testing.T, local, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(waitLimit)))
	return c
}

// requireServed asks once on a connection and leaves it open.
func requireServed(t *testing.T, c net.Conn, request string) {
	t.Helper()
	_, err := io.WriteString(c, request)
	require.NoError(t, err)
	require.Equal(t, 302, read(t, bufio.NewReader(c), false).StatusCode)
}

// requireRefusedFrom says that the server takes no connection from an address. The
// reset may come before the client has seen that it is connected.
func requireRefusedFrom(t *testing.T, local, addr string) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET)
		return
	}
	require.NoError(t, c.SetDeadline(time.Now().Add(waitLimit)))
	requireRefused(t, c)
	require.NoError(t, c.Close())
}

// requireRefused says that the server closes a connection without a word.
func requireRefused(t *testing.T, c net.Conn) {
	t.Helper()
	_, _ = io.WriteString(c, goodRequest) // it may be closed before that
	got, _ := io.ReadAll(c)
	require.Empty(t, got)
}

func refusals(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	const name = "waypost_redirect_connections_refused_total"
	got := map[string]float64{}
	for key, n := range gather(t, registry, name) {
		if n > 0 {
			got[strings.TrimPrefix(key, name+" ")] = n
		}
	}
	return got
}

func TestOneAddressHasSoManyConnectionsAndNoMore(t *testing.T) {
	for name, c := range map[string]struct{ listen, crowded, other string }{
		"over IPv4":                        {"127.0.0.1:0", "127.0.0.2", "127.0.0.3"},
		"over IPv6":                        {"[::1]:0", "::1", ""},
		"over IPv4 on a dual-stack socket": {"[::]:0", "127.0.0.2", "::1"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			_, addr := serveOn(t, c.listen, server.Config{MaxConnectionsPerAddress: 3, Metrics: registry})
			_, port, err := net.SplitHostPort(addr)
			require.NoError(t, err)
			seenBy := func(local string) string {
				if strings.Contains(local, ":") {
					return net.JoinHostPort("::1", port)
				}
				return net.JoinHostPort("127.0.0.1", port)
			}
			at := func(local string) net.Conn { return from(t, local, seenBy(local)) }
			var open []net.Conn
			for range 3 {
				open = append(open, at(c.crowded))
				requireServed(t, open[len(open)-1], goodRequest)
			}
			requireRefusedFrom(t, c.crowded, seenBy(c.crowded))
			requireRefusedFrom(t, c.crowded, seenBy(c.crowded))
			require.Equal(t, map[string]float64{"address": 2}, refusals(t, registry))
			if c.other != "" {
				requireServed(t, at(c.other), goodRequest)
			}
			requireServed(t, open[0], goodRequest) // those that are in are not disturbed

			// A place that is given up can be taken again.
			_, err = io.WriteString(open[1], "GET /found302 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			require.NoError(t, err)
			_, err = io.ReadAll(open[1])
			require.NoError(t, err)
			left := 2.0
			if c.other != "" {
				left++
			}
			require.Eventually(t, func() bool {
				return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"] == left
			}, waitLimit, pollEvery)
			requireServed(t, at(c.crowded), goodRequest)
		})
	}
}

func TestTrustedProxiesMayHaveManyConnections(t *testing.T) {
	_, addr := serve(t, server.Config{MaxConnectionsPerAddress: 1, TrustedProxies: loopback()})
	for range 5 {
		requireServed(t, dial(t, addr), goodRequest)
	}
}

func TestTheServerHasSoManyConnectionsAndNoMore(t *testing.T) { overBothFamilies(t, soManyConnections) }

func soManyConnections(t *testing.T, listen string) {
	registry := prometheus.NewPedanticRegistry()
	_, addr := serveOn(t, listen, server.Config{MaxConnections: 2, Metrics: registry})
	visitors := []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"}
	if strings.HasPrefix(listen, "[") {
		visitors = []string{"::1", "::1", "::1"} // loopback has no other
	}
	first := from(t, visitors[0], addr)
	requireServed(t, first, goodRequest)
	requireServed(t, from(t, visitors[1], addr), goodRequest)
	requireRefusedFrom(t, visitors[2], addr)
	require.Equal(t, map[string]float64{"total": 1}, refusals(t, registry))
	requireServed(t, first, goodRequest)
}

func TestTheLimitsHoldWhenManyComeAndGoAtOnce(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	_, addr := serve(t, server.Config{MaxConnectionsPerAddress: 8, Metrics: registry})
	done := make(chan error, 32)
	for i := range cap(done) {
		go func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(10+i%3))}}
			for range 20 {
				c, err := d.DialContext(t.Context(), "tcp", addr)
				if errors.Is(err, syscall.ECONNRESET) {
					continue // refused
				}
				if err != nil {
					done <- err
					return
				}
				_, _ = io.WriteString(c, "GET /found302 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				answer, _ := io.ReadAll(c) // empty when it was refused
				_ = c.Close()
				if len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 302 ") {
					done <- fmt.Errorf("%.40s", answer)
					return
				}
			}
			done <- nil
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
	require.Eventually(t, func() bool {
		return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"] == 0
	}, waitLimit, pollEvery)
	for i := range 3 { // every place was given back
		var open []net.Conn
		for range 8 {
			open = append(open, from(t, fmt.Sprintf("127.0.0.%d", 10+i), addr))
		}
		for _, c := range open {
			requireServed(t, c, goodRequest)
		}
	}
}
