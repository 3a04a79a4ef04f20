package server_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

func TestATLSConnectionIsServedAndGuardedAlike(t *testing.T) {
	srv, client := certificate(t)
	addr := serveTLS(t, server.Config{}, srv)
	for request, status := range map[string]int{
		"GET /found302 HTTP/1.1\r\nHost: a\r\n\r\n":                               302,
		"GET /found302 HTTP/1.1\r\nHost: a\nX: y\r\n\r\n":                         400,
		"GET /found302 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
	} {
		conn, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", addr)
		require.NoError(t, err)
		_, err = io.WriteString(conn, request)
		require.NoError(t, err)
		require.Equal(t, status, read(t, bufio.NewReader(conn), false).StatusCode)
		require.NoError(t, conn.Close())
	}
}

func TestAnswer_HasTheHeadersThatProtectBrowsers(t *testing.T) {
	srv, client := certificate(t)
	over := serveTLS(t, server.Config{}, srv)
	_, plain := serve(t, server.Config{})
	const page = "Accept: text/html\r\n"
	for request, page := range map[string]bool{
		"GET /found302 HTTP/1.1\r\n": false, "GET /found302 HTTP/1.1\r\nReferer: x\r\nSec-Purpose: none\r\n": false,
		"GET /unknown1 HTTP/1.1\r\n" + page: true, "GET /unknown1 HTTP/1.1\r\n": false, "GET /found302+ HTTP/1.1\r\n" + page: true,
		"POST /found302 HTTP/1.1\r\nContent-Length: 0\r\n" + page: true, "GET / HTTP/1.1\r\n": false, "GET /favicon.ico HTTP/1.1\r\n": false,
	} {
		for _, secure := range []bool{true, false} {
			conn := dial(t, plain)
			if secure {
				c, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", over)
				require.NoError(t, err)
				conn = c
			}
			_, err := io.WriteString(conn, request+"Host: a\r\n\r\n")
			require.NoError(t, err)
			res := read(t, bufio.NewReader(conn), false)
			require.Equal(t, secure, res.Header.Get("Strict-Transport-Security") == "max-age=31536000", request)
			require.Equal(t, res.Header.Get("Content-Type") != "", res.Header.Get("X-Content-Type-Options") == "nosniff", request)
			require.Equal(t, page, strings.HasPrefix(res.Header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-"), request)
			require.Equal(t, page, res.Header.Get("Content-Type") == "text/html; charset=utf-8", request)
			require.NoError(t, conn.Close())
		}
	}
}

func TestALimitHoldsBeforeAnyHandshake(t *testing.T) {
	srv, client := certificate(t)
	registry := prometheus.NewPedanticRegistry()
	addr := serveTLS(t, server.Config{MaxConnectionsPerAddress: 1, Metrics: registry}, srv)
	conn, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	requireServed(t, conn, goodRequest)
	_, err = (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", addr)
	require.Error(t, err)
	require.Equal(t, map[string]float64{"address": 1}, refusals(t, registry))
	require.NoError(t, conn.Close())
}

func TestAPlainRequestToATLSListenerIsNotAnswered(t *testing.T) {
	srv, _ := certificate(t)
	registry := prometheus.NewPedanticRegistry()
	addr := serveTLS(t, server.Config{Metrics: registry}, srv)
	conn := dial(t, addr)
	_, err := io.WriteString(conn, goodRequest)
	require.NoError(t, err)
	got, _ := io.ReadAll(conn)
	require.NotContains(t, string(got), "302")
	require.Equal(t, map[string]float64{"tls_handshake": 1}, refusals(t, registry))
	counted := gather(t, registry, "waypost_redirects_total")
	for key, n := range counted {
		require.Zero(t, n, "what is no request is not counted as one: %s", key)
	}
}

func TestAConnectionThatOnlyProvesADomainIsNotServed(t *testing.T) {
	srv, client := certificate(t)
	srv.NextProtos = []string{"http/1.1", "acme-tls/1"}
	client.NextProtos = []string{"acme-tls/1"}
	addr := serveTLS(t, server.Config{}, srv)
	conn, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	_, _ = io.WriteString(conn, goodRequest)
	got, _ := io.ReadAll(conn)
	require.Empty(t, got)
	_ = conn.Close() // the server has done so already
}
