package server_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost/edge/server"
)

// A visitor who is far away connects just before a stop, and his request arrives just
// after it.
func TestServer_AnswersTheFirstRequestOfAConnectionAcceptedBeforeAStop(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	s := server.New(patient(server.Config{Links: newMemoryLinks(), DrainTime: time.Millisecond, Metrics: registry}))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	before := dial(t, ln.Addr().String())
	in := bufio.NewReader(before)
	_, err = ask(before, in)
	require.NoError(t, err)
	far := dial(t, ln.Addr().String())
	require.Eventually(t, func() bool { // or a listener that is closed would reset it
		return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"] == 2
	}, waitLimit, pollEvery)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	requireEnd(t, before) // the server has stopped listening, and ended what waits for a next request
	res, err := ask(far, bufio.NewReader(far))
	require.NoError(t, err)
	require.True(t, res.Close)
	require.NoError(t, <-stopped)
	require.NoError(t, <-served)
}

// A handshake of TLS takes a far visitor longer than a plain connection may wait for its
// first request.
func TestServer_AnswersTheFirstRequestAfterAHandshakeThatAStopInterrupts(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			secure, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			registry := prometheus.NewPedanticRegistry()
			s := server.New(patient(server.Config{Links: newMemoryLinks(), DrainTime: time.Millisecond, Metrics: registry}))
			served := make(chan error, 2)
			own, client := certificate(t)
			client.MaxVersion = version
			go func() { served <- s.Serve(ln) }()
			go func() { served <- s.ServeTLS(secure, own) }()
			silent, far := dial(t, ln.Addr().String()), dial(t, secure.Addr().String())
			require.Eventually(t, func() bool {
				return gather(t, registry, "waypost_redirect_connections")["waypost_redirect_connections"] == 2
			}, waitLimit, pollEvery)
			stopped := make(chan error, 1)
			go func() { stopped <- s.Shutdown(t.Context()) }()
			requireEnd(t, silent)
			visitor := tls.Client(far, client)
			res, err := ask(visitor, bufio.NewReader(visitor))
			require.NoError(t, err)
			require.True(t, res.Close)
			require.NoError(t, <-stopped)
			require.NoError(t, errors.Join(<-served, <-served))
		})
	}
}
